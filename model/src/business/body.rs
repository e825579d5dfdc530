//! The bodies of the business routes.

use serde_json::{Value, json};

use super::hours;
use super::{CollectionChanges, ProductChanges, ProductInput, ProfileChanges, currency};
use crate::error::CallError;
use crate::field::{Body, Change, Judged, rule};
use crate::issue::{IssueCode, Violation};
use crate::member::fold_email;

const MOST_WEBSITES: usize = 2;
const MOST_IMAGES: usize = 10;
/// Maximum number of products in one call.
const MOST_PRODUCTS: usize = 100;

/// Highest price: the largest integer that a JSON number holds exactly.
const HIGHEST_PRICE: u64 = (1 << 53) - 1;

/// Parses a patch of the profile.
///
/// # Errors
/// `invalid_request` with all violations, as in the functions below.
pub fn read_profile_changes(body: &Body) -> Result<ProfileChanges, CallError> {
    body.read_patch(|fields| {
        let websites = fields.list_or_empty("websites", MOST_WEBSITES, rule::web_url);
        let hours = match fields.nullable_object("hours") {
            Some(Some(fields)) => hours::read(&fields).map(Some).into(),
            Some(None) => Change::To(None),
            None => Change::Keep,
        };
        Some(ProfileChanges {
            description: fields.nullable("description", rule::text(0..=512)).into(),
            category: fields.nullable("category", rule::text(1..=128)).into(),
            email: fields.nullable("email", email).into(),
            websites: websites.into(),
            address: fields.nullable("address", rule::text(0..=256)).into(),
            latitude: fields.nullable("latitude", rule::number(-90.0..=90.0)).into(),
            longitude: fields.nullable("longitude", rule::number(-180.0..=180.0)).into(),
            hours,
            cart_enabled: fields.optional("cart_enabled", rule::boolean).into(),
        })
    })
}

pub fn read_product(body: &Body) -> Result<ProductInput, CallError> {
    body.read(|fields| {
        let name = fields.required("name", rule::text(1..=150));
        let description = fields.nullable("description", rule::text(0..=5000)).flatten();
        let price_amount = fields.nullable("price_amount", rule::integer(0..=HIGHEST_PRICE)).flatten();
        let currency = fields.nullable("currency", currency).flatten();
        if price_amount.is_some() && fields.get("currency").is_none_or(Value::is_null) {
            fields.refuse("currency", Violation::new(IssueCode::Required, "is required with a price"));
        }
        fields.between(|| {
            let given = |field: &str, kind| json!({ "properties": { field: { "type": kind } }, "required": [field] });
            json!({ "if": given("price_amount", "integer"), "then": given("currency", "string") })
        });
        let retailer_id = fields.nullable("retailer_id", rule::text(0..=100)).flatten();
        let url = fields.nullable("url", rule::web_url).flatten();
        let image_urls = fields.required_list("image_urls", MOST_IMAGES, rule::web_url);
        let hidden = fields.optional("hidden", rule::boolean).unwrap_or(false);
        let (name, image_urls) = (name?, image_urls?);
        Some(ProductInput { name, description, price_amount, currency, retailer_id, url, image_urls, hidden })
    })
}

pub fn read_product_changes(body: &Body) -> Result<ProductChanges, CallError> {
    body.read_patch(|fields| {
        Some(ProductChanges {
            name: fields.optional("name", rule::text(1..=150)).into(),
            description: fields.nullable("description", rule::text(0..=5000)).into(),
            price_amount: fields.nullable("price_amount", rule::integer(0..=HIGHEST_PRICE)).into(),
            currency: fields.nullable("currency", currency).into(),
            retailer_id: fields.nullable("retailer_id", rule::text(0..=100)).into(),
            url: fields.nullable("url", rule::web_url).into(),
            image_urls: fields.list("image_urls", MOST_IMAGES, rule::web_url).into(),
            hidden: fields.optional("hidden", rule::boolean).into(),
        })
    })
}

/// Parses a collection's name and its first products.
pub fn read_collection(body: &Body) -> Result<(String, Vec<String>), CallError> {
    body.read(|fields| {
        let name = fields.required("name", rule::text(1..=100));
        let products = fields.required_list("product_ids", MOST_PRODUCTS, product_id);
        Some((name?, products?))
    })
}

pub fn read_collection_changes(body: &Body) -> Result<CollectionChanges, CallError> {
    body.read_patch(|fields| {
        Some(CollectionChanges {
            name: fields.optional("name", rule::text(1..=100)),
            add_product_ids: fields.list_or_empty("add_product_ids", MOST_PRODUCTS, product_id).unwrap_or_default(),
            remove_product_ids: fields
                .list_or_empty("remove_product_ids", MOST_PRODUCTS, product_id)
                .unwrap_or_default(),
        })
    })
}

fn product_id(value: &Value) -> Judged<String> {
    rule::text(1..=255)(value)
}

/// An e-mail address, kept as written.
fn email(value: &Value) -> Judged<String> {
    let text = rule::described(|| json!({ "format": "email" }), rule::text(3..=254))(value)?;
    if fold_email(&text).is_some() {
        Ok(text)
    } else {
        Err(Violation::new(IssueCode::Format, "must be an e-mail address"))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    /// The first issue of a parser, as `path code`.
    fn issue<T>(parser: impl Fn(&Body) -> Result<T, CallError>, body: Value) -> String {
        let refused = parser(&body.clone().try_into().unwrap()).err().unwrap_or_else(|| panic!("{body} is taken"));
        let details = refused.details.unwrap();
        format!("{} {}", details[0]["path"], details[0]["code"]).replace('"', "")
    }

    #[test]
    fn each_rule_of_a_profile_is_named() {
        let day = |more: Value| {
            let mut day = json!({ "day": "mon", "mode": "specific", "open": "09:00", "close": "17:30" });
            for (key, value) in more.as_object().unwrap() {
                day[key] = value.clone();
            }
            json!({ "hours": { "timezone": "Europe/Berlin", "days": [day] } })
        };
        let table = [
            (json!({}), "[] empty"),
            (json!({ "description": "x".repeat(513) }), "[description] too_long"),
            (json!({ "email": "nobody" }), "[email] format"),
            (
                json!({ "websites": ["https://a.example", "https://b.example", "https://c.example"] }),
                "[websites] too_many",
            ),
            (json!({ "websites": ["ftp://a.example"] }), "[websites,0] url_scheme"),
            (json!({ "latitude": 90.5 }), "[latitude] too_big"),
            (json!({ "longitude": -181 }), "[longitude] too_small"),
            (json!({ "hours": 7 }), "[hours] type"),
            (json!({ "hours": { "days": [] } }), "[hours,timezone] required"),
            (
                json!({ "hours": { "timezone": "7", "days": [{ "day": "mon", "mode": "open_24h" }] } }),
                "[hours,timezone] format",
            ),
            (day(json!({ "day": "monday" })), "[hours,days,0,day] enum"),
            (day(json!({ "mode": "closed" })), "[hours,days,0,mode] enum"),
            (day(json!({ "open": "9:00" })), "[hours,days,0,open] format"),
            (day(json!({ "close": "24:00" })), "[hours,days,0,close] format"),
            (day(json!({ "close": null })), "[hours,days,0,close] required"),
            (day(json!({ "mode": "open_24h" })), "[hours,days,0,open] conflict"),
        ];
        for (body, expected) in table {
            assert_eq!(issue(read_profile_changes, body.clone()), expected, "{body}");
        }
        let twice = json!([{ "day": "sat", "mode": "open_24h" }, { "day": "sat", "mode": "appointment" }]);
        let twice = json!({ "hours": { "timezone": "UTC", "days": twice } });
        assert_eq!(issue(read_profile_changes, twice), "[hours,days] conflict");
        let cleared = json!({ "hours": null, "websites": [], "email": null }).try_into().unwrap();
        let cleared = read_profile_changes(&cleared).unwrap();
        assert_eq!((cleared.hours, cleared.websites), (Change::To(None), Change::To(Vec::new())));
    }

    #[test]
    fn each_rule_of_a_product_and_a_collection_is_named() {
        let product = |more: Value| {
            let mut product = json!({ "name": "Tea", "image_urls": ["https://a.example/tea.png"] });
            for (key, value) in more.as_object().unwrap() {
                product[key] = value.clone();
            }
            product
        };
        let table = [
            (json!({ "image_urls": ["https://a.example/tea.png"] }), "[name] required"),
            (json!({ "name": "Tea" }), "[image_urls] required"),
            (product(json!({ "image_urls": [] })), "[image_urls] empty"),
            (product(json!({ "image_urls": vec!["https://a.example/"; 11] })), "[image_urls] too_many"),
            (product(json!({ "name": "x".repeat(151) })), "[name] too_long"),
            (product(json!({ "description": "x".repeat(5001) })), "[description] too_long"),
            (product(json!({ "price_amount": 1 })), "[currency] required"),
            (product(json!({ "price_amount": -1, "currency": "EUR" })), "[price_amount] too_small"),
            (product(json!({ "price_amount": 1.5, "currency": "EUR" })), "[price_amount] type"),
            (product(json!({ "price_amount": 1, "currency": "eur" })), "[currency] format"),
            (product(json!({ "currency": "XXX" })), "[currency] format"),
            (product(json!({ "retailer_id": "x".repeat(101) })), "[retailer_id] too_long"),
            (product(json!({ "url": "tea" })), "[url] format"),
            (product(json!({ "hidden": "no" })), "[hidden] type"),
        ];
        for (body, expected) in table {
            assert_eq!(issue(read_product, body.clone()), expected, "{body}");
        }
        assert_eq!(issue(read_product_changes, json!({})), "[] empty");
        assert_eq!(issue(read_product_changes, json!({ "name": null })), "[name] type");
        assert_eq!(issue(read_collection, json!({ "name": "Teas" })), "[product_ids] required");
        assert_eq!(issue(read_collection, json!({ "name": "", "product_ids": ["1"] })), "[name] too_short");
        assert_eq!(issue(read_collection_changes, json!({ "add_product_ids": [1] })), "[add_product_ids,0] type");
    }
}
