//! Route table of the control API: each row says what is parsed, what is called and how it is answered.

mod account;
mod business;
mod call;
mod calls;
mod communities;
mod groups;
mod labels;
mod newsletters;
mod people;
mod stories;

use futures::FutureExt;
use network::simulator::Simulator;
use network::simulator::answers::{
    ControlError, InboxQuery, LedgerQuery, LinkBy, LoginsQuery, PhoneMessage, RegisterPhone, RegisterPhones,
    SessionsQuery,
};
use network::simulator::faults::FaultsChange;
use salvo::http::StatusCode;
use salvo::prelude::Router;
use serde_json::json;

use self::call::{Answer, Call, DELETE, Endpoint, GET, Outcome, POST, PUT, Route, Run};

/// Routes of a phone, relative to its number.
const PHONE: &[Route] = &[
    (GET, "", |call| Answer::ok(&call.simulator.phone(&call.phone)?)),
    (DELETE, "", |call| call.done(|engine, now, number| engine.delete_phone(now, number))),
    (POST, "unlink", |call| {
        let device = call.field("device")?;
        call.done(|engine, now, number| engine.unlink(now, number, device))
    }),
    (POST, "ban", |call| {
        let until = call.field("until")?;
        call.done(|engine, now, number| engine.ban(now, number, until))
    }),
    (POST, "invalidate", |call| call.done(|engine, now, number| engine.invalidate(now, number))),
    (POST, "replace", |call| call.done(|engine, now, number| engine.replace(now, number))),
    (POST, "messages", |call| {
        let ids = call.simulator.send(&call.phone, &call.body::<PhoneMessage>()?)?;
        Answer::json(StatusCode::CREATED, &json!({ "ids": ids }))
    }),
    (GET, "inbox", |call| {
        let (from, id, after) = (call.text("from"), call.text("id"), call.text("after"));
        Answer::ok(&call.simulator.inbox(&call.phone, &InboxQuery { from, id, after, limit: call.limit()? })?)
    }),
    (DELETE, "inbox", |call| call.done(|engine, _, number| engine.clear_inbox(number))),
    (GET, "presences", |call| Answer::ok(&call.simulator.presences(&call.phone)?)),
    (POST, "open-chat", |call| {
        let with: String = call.field("with")?;
        call.done(|engine, now, number| engine.open_chat(now, number, &with))
    }),
    (POST, "play", |call| {
        let id: String = call.field("id")?;
        call.done(|engine, now, number| engine.play(now, number, &id))
    }),
    (POST, "react", |call| {
        let (id, emoji): (String, String) = (call.field("id")?, call.field("emoji")?);
        call.done(|engine, now, number| engine.react(now, number, &id, &emoji))
    }),
    (POST, "disclose", |call| {
        let to: String = call.field("to")?;
        call.done(|engine, now, number| engine.disclose(now, number, &to))
    }),
];

/// All other routes. They are matched first, because `phones/bulk` does not name a phone.
const OTHER: &[Route] = &[
    (POST, "phones", |call| {
        let (phone, new) = call.simulator.register(&call.body::<RegisterPhone>()?)?;
        Answer::json(if new { StatusCode::CREATED } else { StatusCode::OK }, &phone)
    }),
    (POST, "phones/bulk", |call| {
        let body: RegisterPhones = call.body()?;
        call.simulator.register_many(&body)?;
        Answer::json(StatusCode::CREATED, &json!({ "count": body.count }))
    }),
    (GET, "faults", |call| Answer::ok(&call.simulator.look(|engine| engine.faults().clone()))),
    (PUT, "faults", |call| {
        let change: FaultsChange = call.body()?;
        Answer::ok(&call.simulator.act(|engine, now| engine.change_faults(now, change))?)
    }),
    (DELETE, "faults", |call| Answer::ok(&call.simulator.act(|engine, now| engine.clear_faults(now)))),
    (GET, "sessions", |call| {
        let query = SessionsQuery { number: call.text("number"), limit: call.limit()? };
        Answer::ok(&call.simulator.look(|engine| engine.sessions(&query))?)
    }),
    (GET, "logins", |call| {
        let query = LoginsQuery { number: call.text("number"), since: call.text("since"), limit: call.limit()? };
        Answer::ok(&call.simulator.look(|engine| engine.logins(&query))?)
    }),
    (GET, "stats", |call| Answer::ok(&call.simulator.stats())),
    (GET, "accepted", |call| {
        let query = LedgerQuery { since_seq: call.number("since_seq")?, limit: call.limit()? };
        Answer::ok(&call.simulator.look(|engine| engine.accepted(&query)))
    }),
    (GET, "pictures/{picture}", |call| Answer::jpeg(call.simulator.picture(call.param("picture"), false)?)),
    (GET, "pictures/{picture}/preview", |call| Answer::jpeg(call.simulator.picture(call.param("picture"), true)?)),
    (POST, "reset", |call| {
        call.simulator.act(|engine, now| engine.reset(now));
        Answer::done()
    }),
    (GET, "healthz", |_| Answer::ok(&json!({ "status": "ok" }))),
];

/// The router of a simulator's control API.
pub fn router(simulator: &Simulator) -> Router {
    let endpoint = |run| Endpoint { simulator: simulator.clone(), run };
    let push = |router: Router, (method, path, run): &Route| {
        let at = if path.is_empty() { Router::new() } else { Router::with_path(*path) };
        router.push(method(at, endpoint(Run::Now(*run))))
    };
    let areas = [
        PHONE,
        groups::ROUTES,
        calls::ROUTES,
        people::ROUTES,
        business::ROUTES,
        stories::ROUTES,
        communities::ROUTES,
        newsletters::ROUTES,
        labels::ROUTES,
        account::ROUTES,
    ];
    let phone = areas.into_iter().flatten().fold(Router::with_path("phones/{n}"), push);
    let link = Router::with_path("link").post(endpoint(Run::Waiting(|call| link(call).boxed())));
    OTHER
        .iter()
        .fold(Router::new(), push)
        .push(phone.push(link))
        .push(Router::with_path("{**rest}").goal(endpoint(Run::Now(nothing_here))))
}

async fn link(call: Call) -> Outcome {
    let device = call.simulator.link(&call.phone, call.body::<LinkBy>()?).await?;
    Answer::ok(&json!({ "device": device }))
}

fn nothing_here(_call: &Call) -> Outcome {
    Err(ControlError::NotFound("the simulator has no such route, or not this method on it".into()))
}
