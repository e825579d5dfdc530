//! The routes of the control API: one line each says what is parsed, what is called and how it is answered.

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

use self::call::{Answer, Call, Outcome, Routes};

/// All routes over one simulator.
pub fn router(simulator: &Simulator) -> Router {
    let routes = Routes { simulator };
    let phone = Router::with_path("{n}")
        .push(Router::new().get(routes.to(show_phone)).delete(routes.to(delete_phone)))
        .push(Router::with_path("link").post(routes.to_waiting(|call| link(call).boxed())))
        .push(Router::with_path("unlink").post(routes.to(unlink)))
        .push(Router::with_path("ban").post(routes.to(ban)))
        .push(Router::with_path("invalidate").post(routes.to(invalidate)))
        .push(Router::with_path("replace").post(routes.to(replace)))
        .push(Router::with_path("messages").post(routes.to(send)))
        .push(Router::with_path("inbox").get(routes.to(inbox)).delete(routes.to(clear_inbox)))
        .push(Router::with_path("presences").get(routes.to(presences)))
        .push(Router::with_path("open-chat").post(routes.to(open_chat)))
        .push(Router::with_path("play").post(routes.to(play)))
        .push(Router::with_path("react").post(routes.to(react)))
        .push(Router::with_path("disclose").post(routes.to(disclose)))
        .push(groups::routes(&routes))
        .push(calls::routes(&routes))
        .push(people::chats(&routes))
        .push(people::contacts(&routes))
        .push(business::business(&routes))
        .push(business::orders(&routes))
        .push(business::cart(&routes))
        .push(stories::routes(&routes))
        .push(communities::routes(&routes))
        .push(newsletters::routes(&routes))
        .push(labels::routes(&routes))
        .push(account::blacklist(&routes))
        .push(account::presence(&routes))
        .push(account::profile(&routes))
        .push(account::privacy(&routes));
    let phones = Router::with_path("phones")
        .push(Router::new().post(routes.to(register)))
        .push(Router::with_path("bulk").post(routes.to(register_many)))
        .push(phone);
    let faults = Router::with_path("faults")
        .get(routes.to(show_faults))
        .put(routes.to(change_faults))
        .delete(routes.to(clear_faults));
    Router::new()
        .push(phones)
        .push(faults)
        .push(Router::with_path("sessions").get(routes.to(sessions)))
        .push(Router::with_path("logins").get(routes.to(logins)))
        .push(Router::with_path("stats").get(routes.to(stats)))
        .push(Router::with_path("accepted").get(routes.to(accepted)))
        .push(Router::with_path("pictures/{picture}").get(routes.to(picture)))
        .push(Router::with_path("pictures/{picture}/preview").get(routes.to(preview)))
        .push(Router::with_path("reset").post(routes.to(reset)))
        .push(Router::with_path("healthz").get(routes.to(healthz)))
        .push(Router::with_path("{**rest}").goal(routes.to(nothing_here)))
}

fn register(call: Call) -> Outcome {
    let (phone, new) = call.simulator.register(&call.body::<RegisterPhone>()?)?;
    Answer::json(if new { StatusCode::CREATED } else { StatusCode::OK }, &phone)
}

fn register_many(call: Call) -> Outcome {
    let body: RegisterPhones = call.body()?;
    call.simulator.register_many(&body)?;
    Answer::json(StatusCode::CREATED, &json!({ "count": body.count }))
}

fn show_phone(call: Call) -> Outcome {
    Answer::ok(&call.simulator.phone(&call.phone)?)
}

fn delete_phone(call: Call) -> Outcome {
    call.done(|engine, now, number| engine.delete_phone(now, number))
}

async fn link(call: Call) -> Outcome {
    let device = call.simulator.link(&call.phone, call.body::<LinkBy>()?).await?;
    Answer::ok(&json!({ "device": device }))
}

fn unlink(call: Call) -> Outcome {
    let device = call.field("device")?;
    call.done(|engine, now, number| engine.unlink(now, number, device))
}

fn ban(call: Call) -> Outcome {
    let until = call.field("until")?;
    call.done(|engine, now, number| engine.ban(now, number, until))
}

fn invalidate(call: Call) -> Outcome {
    call.done(|engine, now, number| engine.invalidate(now, number))
}

fn replace(call: Call) -> Outcome {
    call.done(|engine, now, number| engine.replace(now, number))
}

fn send(call: Call) -> Outcome {
    let ids = call.simulator.send(&call.phone, &call.body::<PhoneMessage>()?)?;
    Answer::json(StatusCode::CREATED, &json!({ "ids": ids }))
}

fn inbox(call: Call) -> Outcome {
    let query =
        InboxQuery { from: call.text("from"), id: call.text("id"), after: call.text("after"), limit: call.limit()? };
    Answer::ok(&call.simulator.inbox(&call.phone, &query)?)
}

fn presences(call: Call) -> Outcome {
    Answer::ok(&call.simulator.presences(&call.phone)?)
}

fn clear_inbox(call: Call) -> Outcome {
    call.done(|engine, _, number| engine.clear_inbox(number))
}

fn open_chat(call: Call) -> Outcome {
    let with: String = call.field("with")?;
    call.done(|engine, now, number| engine.open_chat(now, number, &with))
}

fn play(call: Call) -> Outcome {
    let id: String = call.field("id")?;
    call.done(|engine, now, number| engine.play(now, number, &id))
}

fn react(call: Call) -> Outcome {
    let (id, emoji): (String, String) = (call.field("id")?, call.field("emoji")?);
    call.done(|engine, now, number| engine.react(now, number, &id, &emoji))
}

fn disclose(call: Call) -> Outcome {
    let to: String = call.field("to")?;
    call.done(|engine, now, number| engine.disclose(now, number, &to))
}

fn sessions(call: Call) -> Outcome {
    let query = SessionsQuery { number: call.text("number"), limit: call.limit()? };
    Answer::ok(&call.simulator.sessions(&query)?)
}

fn logins(call: Call) -> Outcome {
    let query = LoginsQuery { number: call.text("number"), since: call.text("since"), limit: call.limit()? };
    Answer::ok(&call.simulator.logins(&query)?)
}

fn stats(call: Call) -> Outcome {
    Answer::ok(&call.simulator.stats())
}

fn accepted(call: Call) -> Outcome {
    let query = LedgerQuery { since_seq: call.number("since_seq")?, limit: call.limit()? };
    Answer::ok(&call.simulator.accepted(&query))
}

fn show_faults(call: Call) -> Outcome {
    Answer::ok(&call.simulator.faults())
}

fn change_faults(call: Call) -> Outcome {
    Answer::ok(&call.simulator.change_faults(call.body::<FaultsChange>()?)?)
}

fn clear_faults(call: Call) -> Outcome {
    Answer::ok(&call.simulator.clear_faults())
}

fn picture(call: Call) -> Outcome {
    Answer::jpeg(call.simulator.picture(call.param("picture"), false)?)
}

fn preview(call: Call) -> Outcome {
    Answer::jpeg(call.simulator.picture(call.param("picture"), true)?)
}

fn reset(call: Call) -> Outcome {
    call.simulator.act(|engine, now| engine.reset(now));
    Answer::done()
}

fn healthz(_call: Call) -> Outcome {
    Answer::ok(&json!({ "status": "ok" }))
}

fn nothing_here(_call: Call) -> Outcome {
    Err(ControlError::NotFound("the simulator has no such route, or not this method on it".into()))
}
