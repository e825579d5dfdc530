//! Business accounts: profile and catalog through any node, incoming orders and carts, and the contacts' view.

use serde_json::{Value, json};
use tests::cluster::{Cluster, Options};
use tests::http::string;
use tests::scene::{SOON, Scene, assert_has};
use tests::tenant::{address, number};
use tests::wait::eventually;

async fn shop() -> Scene {
    Scene::with(json!({ "business": true })).await
}

fn tea() -> Value {
    json!({
        "name": "Tea", "description": "Green", "price_amount": 4500, "currency": "EUR", "retailer_id": "T-1",
        "url": "https://example.com/tea", "image_urls": ["https://example.com/1.jpg", "https://example.com/2.jpg"],
    })
}

async fn add(scene: &Scene, name: &str) -> String {
    let mut product = tea();
    product["name"] = json!(name);
    string(&scene.api.post(&scene.path("/business/products"), product).await.expect(201)["id"])
}

#[tokio::test]
async fn a_profile_is_changed_field_by_field_and_read_in_every_status() {
    let scene = shop().await;
    let path = scene.path("/business/profile");
    let shown = scene.api.get(&path).await.expect(200);
    let expected = json!({
        "id": scene.channel.address(), "description": null, "category": null, "email": null, "websites": [],
        "address": null, "latitude": null, "longitude": null, "hours": null, "cart_enabled": true,
    });
    assert_eq!(shown, expected);
    let days = json!([
        { "day": "mon", "mode": "specific", "open": "09:00", "close": "17:30" },
        { "day": "sat", "mode": "open_24h", "open": null, "close": null },
    ]);
    let changes = json!({
        "description": "Tea and more", "category": "Shop", "email": "tea@example.com", "address": "Main street 1",
        "websites": ["https://example.com", "https://tea.example.com"], "latitude": 52.5, "longitude": 13.4,
        "hours": { "timezone": "Europe/Berlin", "days": days },
    });
    let changed = scene.api.patch(&path, changes.clone()).await.expect(200);
    assert_has(&changed, &changes);
    let changed = scene.api.patch(&path, json!({ "email": null, "websites": [] })).await.expect(200);
    assert_has(&changed, &json!({ "email": null, "websites": [], "category": "Shop" }));

    let cart = scene.path("/business/cart");
    assert_eq!(scene.api.put(&cart, json!({ "enabled": false })).await.expect(200), json!({ "enabled": false }));
    assert_eq!(scene.api.put(&cart, json!({ "enabled": false })).await.expect(200), json!({ "enabled": false }));
    scene.api.put(&cart, json!({})).await.expect_issue(&json!(["enabled"]), "required");
    let body = json!({ "to": scene.channel.number, "items": [] });
    let refused = scene.simulator.api().put(&scene.phone_path("/cart"), body).await;
    assert_eq!(refused.status, 400, "{}", refused.text());
    scene
        .api
        .patch(&path, json!({ "hours": { "timezone": "UTC" } }))
        .await
        .expect_issue(&json!(["hours", "days"]), "required");
    scene.api.patch(&path, json!({})).await.expect_issue(&json!([]), "empty");

    // The channel's own phone can change the profile, too.
    let own = format!("/phones/{}/business/profile", scene.channel.number);
    scene.simulator.api().patch(&own, json!({ "description": "By hand" })).await.expect(200);
    eventually("the profile is known", SOON, async || {
        let shown = scene.api.get(&path).await.expect(200);
        if shown["description"] == "By hand" { Ok(()) } else { Err(shown.to_string()) }
    })
    .await;
    scene.api.act(&scene.path("/disconnect")).await.expect(202);
    assert_eq!(scene.api.get(&path).await.expect(200)["description"], "By hand");
    scene.api.get(&format!("{path}?refresh=true")).await.expect_error(409, "channel_unavailable");
    scene.api.patch(&path, json!({ "description": "x" })).await.expect_error(409, "channel_unavailable");
}

#[tokio::test]
async fn products_and_collections_are_made_listed_changed_and_deleted() {
    let scene = shop().await;
    let (api, products, collections) =
        (&scene.api, scene.path("/business/products"), scene.path("/business/collections"));
    let made = api.post(&products, tea()).await.expect(201);
    let expected = json!({
        "name": "Tea", "description": "Green", "price_amount": 4500, "currency": "EUR", "retailer_id": "T-1",
        "url": "https://example.com/tea", "hidden": false, "review_status": "approved", "collection_ids": [],
    });
    assert_has(&made, &expected);
    assert_eq!(made["image_urls"].as_array().unwrap().len(), 2);
    assert_ne!(made["image_urls"][0], "https://example.com/1.jpg", "the network keeps its own copies");
    let tea = string(&made["id"]);
    assert_eq!(api.get(&format!("{products}/{tea}")).await.expect(200), made);
    let cups = add(&scene, "Cup").await;

    let body = json!({ "name": "For guests", "product_ids": [tea, cups] });
    let listed = api.post(&collections, body).await.expect(201);
    assert_has(&listed, &json!({ "name": "For guests", "status": "approved", "product_count": 2 }));
    let collection = string(&listed["id"]);
    let path = format!("{collections}/{collection}");
    let changed = api.patch(&path, json!({ "name": "Guests", "remove_product_ids": [cups] })).await.expect(200);
    assert_has(&changed, &json!({ "name": "Guests", "product_count": 1 }));
    assert_eq!(api.get(&path).await.expect(200), changed);
    assert_eq!(api.get(&collections).await.expect(200)["data"], json!([changed]));
    let inside = api.get(&format!("{products}?collection_id={collection}")).await.expect(200);
    assert_eq!(inside["data"].as_array().unwrap().len(), 1);
    assert_eq!(inside["data"][0]["collection_ids"], json!([collection]));

    let first = api.get(&format!("{products}?limit=1")).await.expect(200);
    let next = string(&first["next_cursor"]);
    let second = api.get(&format!("{products}?limit=1&cursor={next}")).await.expect(200);
    assert_eq!([&first["data"][0]["id"], &second["data"][0]["id"]], [tea.as_str(), cups.as_str()]);
    assert_eq!(second["next_cursor"], Value::Null);

    let product = format!("{products}/{cups}");
    let changed =
        api.patch(&product, json!({ "hidden": true, "price_amount": null, "currency": null })).await.expect(200);
    assert_has(&changed, &json!({ "hidden": true, "price_amount": null, "currency": null, "name": "Cup" }));
    api.patch(&product, json!({ "price_amount": 7 })).await.expect_issue(&json!(["currency"]), "required");
    assert_eq!(api.delete(&format!("{products}/{tea}")).await.status, 204);
    api.get(&format!("{products}/{tea}")).await.expect_error(404, "not_found");
    assert_eq!(api.get(&path).await.expect(200)["product_count"], 0);
    assert_eq!(api.delete(&path).await.status, 204);

    for answer in [api.get(&path).await, api.delete(&path).await, api.patch(&path, json!({ "name": "x" })).await] {
        assert_eq!(answer.expect_error(404, "not_found"), json!({ "resource": "collection", "id": collection }));
    }
    let unknown = api.post(&collections, json!({ "name": "x", "product_ids": ["7"] })).await;
    assert_eq!(unknown.expect_error(404, "not_found"), json!({ "resource": "product", "id": "7" }));
    api.post(&products, json!({ "name": "x" })).await.expect_issue(&json!(["image_urls"]), "required");
}

#[tokio::test]
async fn orders_and_carts_of_others_are_told_and_orders_are_kept() {
    let scene = shop().await;
    let sim = scene.simulator.api();
    let tea = add(&scene, "Tea").await;
    let peer = address(&scene.peer);
    let items = json!([{ "product_id": tea, "quantity": 2 }]);
    let body = json!({ "to": scene.channel.number, "items": items, "note": "No sugar" });
    let id = string(&sim.post(&scene.phone_path("/orders"), body.clone()).await.expect(201)["order_id"]);
    let told = scene.event("order.placed", &id, |data| data["order"]["id"] == id.as_str()).await;
    assert_has(&told, &json!({ "from": peer, "from_phone": peer, "from_resolved": true }));
    let expected = json!({
        "from": peer, "from_phone": peer, "status": "placed", "note": "No sugar", "currency": "EUR",
        "subtotal_amount": 9000, "tax_amount": null, "total_amount": 9000, "message_id": told["message_id"],
    });
    assert_has(&told["order"], &expected);
    let item = json!({ "product_id": tea, "name": "Tea", "quantity": 2, "price_amount": 4500, "currency": "EUR" });
    assert_has(&told["order"]["items"][0], &item);
    let message = told["message_id"].clone();
    let received = scene.event("message.received", &id, |data| data["message_id"] == message).await;
    assert_has(&received["body"], &json!({ "type": "order", "order_id": id, "token": told["order"]["token"] }));

    let path = scene.path("/business/orders");
    let order = scene.api.get(&format!("{path}/{id}")).await.expect(200);
    assert_eq!(order, told["order"]);
    let token = string(&order["token"]);
    scene.api.get(&format!("{path}/{id}?token={token}")).await.expect(200);
    scene.api.get(&format!("{path}/{id}?token=other")).await.expect_error(404, "not_found");
    scene.api.get(&format!("{path}/7?token=other")).await.expect_error(404, "not_found");

    let second = string(&sim.post(&scene.phone_path("/orders"), body).await.expect(201)["order_id"]);
    scene.event("order.placed", &second, |data| data["order"]["id"] == second.as_str()).await;
    let cancel = scene.phone_path(&format!("/orders/{id}/cancel"));
    sim.post(&cancel, json!({ "reason": "Too late" })).await.expect(201);
    let told = scene.event("order.cancelled", &id, |data| data["order_id"] == id.as_str()).await;
    assert_has(&told, &json!({ "from": peer, "reason": "Too late" }));
    let ids = async |query: &str| {
        let list = scene.api.get(&format!("{path}?{query}")).await.expect(200);
        list["data"].as_array().unwrap().iter().map(|order| string(&order["id"])).collect::<Vec<_>>()
    };
    assert_eq!(ids("status=cancelled").await, [id.as_str()]);
    assert_eq!(ids("status=placed,accepted").await, [second.as_str()]);
    assert_eq!(ids("").await.len(), 2);
    assert!(ids("until=2020-01-01T00:00:00Z").await.is_empty());
    assert_eq!(ids("since=2020-01-01T00:00:00Z").await.len(), 2);
    scene.api.get(&format!("{path}?status=paid")).await.expect_issue(&json!(["status"]), "enum");
    // The business app accepts the second order.
    sim.act(&format!("/phones/{}/orders/{second}/accept", scene.channel.number)).await.expect(201);
    eventually("the order is accepted", SOON, async || {
        let order = scene.api.get(&format!("{path}/{second}")).await.expect(200);
        if order["status"] == "accepted" { Ok(()) } else { Err(order.to_string()) }
    })
    .await;

    let items = json!([{ "product_id": tea, "quantity": 3 }]);
    let body = json!({ "to": scene.channel.number, "items": items });
    let cart = string(&sim.put(&scene.phone_path("/cart"), body).await.expect(201)["cart_id"]);
    let told = scene.event("cart.updated", &cart, |data| data["cart_id"] == cart.as_str()).await;
    assert_has(&told, &json!({ "from": peer, "total_amount": 13500, "currency": "EUR" }));
    let item = json!({ "product_id": tea, "name": "Tea", "quantity": 3, "price_amount": 4500, "currency": "EUR" });
    assert_eq!(told["items"], json!([item]));
    let told = ["order.placed", "order.cancelled", "cart.updated"].map(|name| scene.told(name));
    assert_eq!(told, [2, 1, 1]);
}

#[tokio::test]
async fn who_is_no_business_is_told_so_and_contacts_show_theirs() {
    let scene = Scene::begin().await;
    let (api, sim) = (&scene.api, scene.simulator.api());
    let calls = [
        api.get(&scene.path("/business/profile")).await,
        api.patch(&scene.path("/business/profile"), json!({ "description": "x" })).await,
        api.get(&scene.path("/business/products")).await,
        api.post(&scene.path("/business/products"), tea()).await,
        api.get(&scene.path("/business/collections/7")).await,
        api.delete(&scene.path("/business/collections/7")).await,
        api.get(&scene.path("/business/orders")).await,
        api.put(&scene.path("/business/cart"), json!({ "enabled": true })).await,
    ];
    for answer in calls {
        assert_eq!(answer.expect_error(422, "other")["upstream_text"], "not_business");
    }
    let contact = |number: &str, rest: &str| scene.path(&format!("/contacts/{number}/{rest}"));
    for rest in ["catalog", "business-profile"] {
        let refused = api.get(&contact(&scene.peer, rest)).await;
        assert_eq!(refused.expect_error(422, "other")["upstream_text"], "not_business");
        api.get(&contact("19999999999", rest)).await.expect_error(404, "contact_not_found");
    }
    let shop = number();
    scene.simulator.phone(&shop, json!({ "business": true })).await;
    let profile = json!({ "description": "Cups", "category": "Shop" });
    sim.patch(&format!("/phones/{shop}/business/profile"), profile.clone()).await.expect(200);
    let mut made = Vec::new();
    for _ in 0..3 {
        made.push(string(&sim.post(&format!("/phones/{shop}/business/products"), tea()).await.expect(201)["id"]));
    }
    let hidden = json!({ "hidden": true });
    sim.patch(&format!("/phones/{shop}/business/products/{}", made[1]), hidden).await.expect(200);
    assert_has(&api.get(&contact(&shop, "business-profile")).await.expect(200), &profile);
    let catalog = contact(&address(&shop), "catalog");
    let first = api.get(&format!("{catalog}?limit=1")).await.expect(200);
    assert_eq!(first["data"][0]["id"], made[0].as_str());
    let next = string(&first["next_cursor"]);
    let second = api.get(&format!("{catalog}?limit=1&cursor={next}")).await.expect(200);
    assert_eq!((&second["data"][0]["id"], &second["next_cursor"]), (&json!(made[2]), &Value::Null));

    let body = json!({ "name": "b", "scopes": ["business.read"] });
    let reader = api.with_key(&string(&api.post("/v1/api-keys", body).await.expect(201)["secret"]));
    reader.get(&catalog).await.expect(200);
    reader.put(&scene.path("/business/cart"), json!({ "enabled": true })).await.expect_error(403, "insufficient_scope");

    // The account becomes a business.
    scene.simulator.phone(&scene.channel.number, json!({ "business": true })).await;
    eventually("the account is a business", SOON, async || {
        let answer = api.get(&scene.path("/business/profile")).await;
        if answer.status == 200 { Ok(()) } else { Err(answer.text()) }
    })
    .await;
    let unpaired = scene.tenant.channel("Unpaired").await;
    api.get(&format!("/v1/channels/{unpaired}/business/profile")).await.expect_error(409, "not_connected");
}

#[tokio::test]
async fn catalog_and_orders_survive_the_death_of_their_owner() {
    let cluster = Cluster::start(Options::default()).await;
    let scene = Scene::on(&cluster, json!({ "business": true })).await;
    let tea = add(&scene, "Tea").await;
    let body = json!({ "to": scene.channel.number, "items": [{ "product_id": tea, "quantity": 1 }] });
    let id = string(&scene.simulator.api().post(&scene.phone_path("/orders"), body).await.expect(201)["order_id"]);
    scene.event("order.placed", &id, |data| data["order"]["id"] == id.as_str()).await;
    cluster.kill(scene.owner().await);
    let order = scene.api.get(&scene.path(&format!("/business/orders/{id}"))).await.expect(200);
    assert_eq!(order["status"], "placed");
    let product = scene.path(&format!("/business/products/{tea}"));
    assert_eq!(scene.api.get(&product).await.expect(200)["name"], "Tea");
    eventually("the next owner changes it", SOON, async || {
        let answer = scene.api.patch(&product, json!({ "name": "Tea, green" })).await;
        if answer.status == 200 { Ok(()) } else { Err(answer.text()) }
    })
    .await;
    assert_eq!(scene.told("order.placed"), 1);
}
