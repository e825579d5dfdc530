//! A trace in an OpenTelemetry collector: from a request at one node, through the owner on another, to the webhook.

use reqwest::Method;
use serde_json::{Value, json};
use tests::cluster::{Cluster, Options};
use tests::http::{answer, string};
use tests::receiver::Receiver;
use tests::tenant::{Tenant, number, text};
use tests::wait::{eventually, seconds};

/// All spans that a collector received, with the node that exported each.
fn spans(collector: &Receiver) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for request in collector.received().iter().filter(|request| request.path == "/v1/traces") {
        for resource in request.json()["resourceSpans"].as_array().unwrap() {
            let node = attribute(&resource["resource"], "service.instance.id");
            for scope in resource["scopeSpans"].as_array().unwrap() {
                found.extend(scope["spans"].as_array().unwrap().iter().map(|span| (node.clone(), span.clone())));
            }
        }
    }
    found
}

/// An attribute as text; empty if it is missing.
fn attribute(of: &Value, key: &str) -> String {
    let found = of["attributes"].as_array().unwrap().iter().find(|attribute| attribute["key"] == key);
    let value = found.map_or(&Value::Null, |attribute| &attribute["value"]);
    value["stringValue"].as_str().or(value["intValue"].as_str()).unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_trace_leads_from_the_request_over_the_owner_to_the_webhook() {
    let collector = Receiver::start().await;
    let endpoint = format!("--set=traces.endpoint={}", collector.url(""));
    let told = "--set=log.filter=info,openraft=error,api=debug,shard=debug";
    let cluster = Cluster::start(Options::default().arg(&endpoint).arg(told)).await;
    let tenant = Tenant::new(&cluster).await;
    let receiver = Receiver::start().await;
    tenant.endpoint(&receiver.url("/hook"), &["message.sent", "message.received"], json!({})).await;
    let channel = tenant.paired("Sales").await;
    let ann = number();
    tenant.simulator().phone(&ann, json!({})).await;
    let owner = tenant.owner(1, &channel.id).await.node;
    let asked = cluster.node_ids().into_iter().find(|node| *node != owner).unwrap();

    let (theirs, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
    let request = tenant.api(asked).request(Method::POST, &channel.path("/messages"));
    let request = request.header("traceparent", format!("00-{theirs}-{span}-01")).json(&text(&ann, "traced"));
    let sent = answer(request).await;
    let request_id = sent.header("x-request-id").unwrap().to_owned();
    let message = string(&sent.expect(202)["message_id"]);
    receiver.wait_message("message.sent", &message, seconds(20)).await;

    let trace = eventually("all spans of the send are exported", seconds(20), async || {
        let all = spans(&collector);
        let first = all.iter().find(|(_, span)| attribute(span, "gateway.request_id") == request_id);
        let Some((_, first)) = first else { return Err("no first span".to_owned()) };
        let trace: Vec<_> = all.iter().filter(|(_, span)| span["traceId"] == first["traceId"]).cloned().collect();
        let names: Vec<&str> = trace.iter().map(|(_, span)| span["name"].as_str().unwrap()).collect();
        let wanted = ["POST /v1/channels/{id}/messages", "owner", "send", "webhook message.sent"];
        if wanted.iter().all(|name| names.contains(name)) { Ok(trace) } else { Err(format!("{names:?}")) }
    })
    .await;
    let named = |name: &str| trace.iter().find(|(_, span)| span["name"] == name).unwrap();
    let (node, first) = named("POST /v1/channels/{id}/messages");
    assert_eq!(*node, format!("node-{asked}"));
    assert_eq!((&first["parentSpanId"], attribute(first, "http.response.status_code")), (&json!(""), "202".to_owned()));
    assert_eq!(first["links"], json!([{ "traceId": theirs, "spanId": span }]));
    for name in ["owner", "send", "webhook message.sent"] {
        let (node, span) = named(name);
        assert_eq!(*node, format!("node-{owner}"), "{name}");
        assert_eq!(span["parentSpanId"], first["spanId"], "{name}");
        let time = |field: &str| span[field].as_str().unwrap().parse::<u64>().unwrap();
        assert!(time("startTimeUnixNano") <= time("endTimeUnixNano"), "{span}");
    }

    // Log lines of the request have the trace id, at the requested node and at the owner.
    let trace_id = string(&first["traceId"]);
    for (node, said) in [(asked, "answered status=202"), (owner, "answered as the owner")] {
        let log = std::fs::read_to_string(cluster.node(node).log).unwrap();
        let bears = |line: &&str| line.contains(said) && line.contains(&request_id);
        let line = log.lines().find(bears).unwrap_or_else(|| panic!("node {node} says nothing of {request_id}"));
        assert!(line.contains(&format!("trace_id=\"{trace_id}\"")), "{line}");
    }

    // Clients can invent methods of any length, so spans have a fixed word in their place.
    let invented = Method::from_bytes("A".repeat(60_000).as_bytes()).unwrap();
    answer(tenant.api(asked).request(invented, &channel.path("/messages"))).await.expect(404);
    let named = eventually("the span of the invented method is exported", seconds(20), async || {
        let all = spans(&collector);
        let found = all.iter().find(|(_, span)| span["name"] == "other /v1/channels/{id}/messages");
        found.map(|(_, span)| attribute(span, "http.request.method")).ok_or_else(|| "no span".to_owned())
    })
    .await;
    assert_eq!(named, "other");

    // A received message begins its own trace.
    let said = tenant.simulator().text(&ann, &channel.number, "hi", 1).await;
    receiver.wait_message("message.received", &said[0], seconds(20)).await;
    eventually("the spans of what came in are exported", seconds(20), async || {
        let all = spans(&collector);
        let webhook = all.iter().find(|(_, span)| span["name"] == "webhook message.received");
        let Some((_, webhook)) = webhook else { return Err("no webhook".to_owned()) };
        let received =
            all.iter().find(|(_, span)| span["name"] == "receive" && span["spanId"] == webhook["parentSpanId"]);
        received.map(drop).ok_or_else(|| webhook.to_string())
    })
    .await;
}
