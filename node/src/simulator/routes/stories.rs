//! Stories that a phone posts and receives.

use network::simulator::answers::stories::NewStory;
use salvo::http::StatusCode;
use serde_json::json;

use super::call::{Answer, DELETE, GET, POST, Route};

pub const ROUTES: &[Route] = &[
    (GET, "stories", |call| Answer::list(call.act(|engine, now, number| engine.phone_stories(now, number))?)),
    (POST, "stories", |call| {
        let story: NewStory = call.body()?;
        let story_id = call.act(|engine, now, number| engine.phone_story(now, number, &story))?;
        Answer::json(StatusCode::CREATED, &json!({ "story_id": story_id }))
    }),
    (DELETE, "stories/{story}", |call| {
        call.done(|engine, now, number| engine.delete_phone_story(now, number, call.param("story")))
    }),
    (POST, "stories/{story}/view", |call| {
        call.done(|engine, now, number| engine.view_story(now, number, call.param("story")))
    }),
];
