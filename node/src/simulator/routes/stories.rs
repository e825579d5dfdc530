//! Stories that a phone posts and sees.

use network::simulator::answers::stories::NewStory;
use salvo::http::StatusCode;
use salvo::prelude::Router;
use serde_json::json;

use super::call::{Answer, Call, Outcome, Routes};

pub fn routes(routes: &Routes<'_>) -> Router {
    let story = Router::with_path("{story}")
        .push(Router::new().delete(routes.to(delete)))
        .push(Router::with_path("view").post(routes.to(view)));
    Router::with_path("stories").push(Router::new().get(routes.to(list)).post(routes.to(post))).push(story)
}

fn post(call: Call) -> Outcome {
    let story: NewStory = call.body()?;
    let story_id = call.act(|engine, now, number| engine.phone_story(now, number, &story))?;
    Answer::json(StatusCode::CREATED, &json!({ "story_id": story_id }))
}

fn list(call: Call) -> Outcome {
    let stories = call.act(|engine, now, number| engine.phone_stories(now, number))?;
    Answer::list(&stories)
}

fn delete(call: Call) -> Outcome {
    call.done(|engine, now, number| engine.delete_phone_story(now, number, call.param("story")))
}

fn view(call: Call) -> Outcome {
    call.done(|engine, now, number| engine.view_story(now, number, call.param("story")))
}
