//! The channel's own profile.

use model::error::{CallError, ErrorCode as E};
use model::field::{Body, rule};
use model::issue::{IssueCode, Violation};
use model::profile::ChannelProfile;
use network::operation::account::ProfileOperation;
use serde_json::json;
use shard::projection::account::OWN;

use super::media::{FETCHED, set_or_cleared};
use crate::projection::read_refresh;
use crate::reply::{Outcome, Reply};
use crate::request_context::ChannelCall;
use crate::route::{GET, PATCH, Route};

pub fn routes() -> Vec<Route> {
    vec![
        Route::channel(GET, "/v1/channels/{id}/profile", show)
            .doc("get_profile", "Get the channel's profile")
            .query(read_refresh)
            .ok::<ChannelProfile>()
            .on_network(),
        Route::channel(PATCH, "/v1/channels/{id}/profile", patch)
            .doc("update_profile", "Change the channel's profile")
            .about(
                "Name, about and picture are changed in this order. If one fails, the earlier ones stay changed, and \
                 `details.applied` of the error lists them.",
            )
            .body(parse_patch, json!({ "name": "Sales", "about": "We answer within an hour" }))
            .ok::<ChannelProfile>()
            .on_network()
            .errors(FETCHED)
            .errors(&[E::NoOp]),
    ]
}

/// The change of a profile picture.
enum NewPicture {
    At(String),
    Clear,
}

/// The new name, about text and picture.
type Patch = (Option<String>, Option<String>, Option<NewPicture>);

fn parse_patch(body: &Body) -> Result<Patch, CallError> {
    body.read_patch(|fields| {
        let name = fields.optional("name", rule::text(1..=64));
        let about = fields.optional("about", rule::text(0..=160));
        let url = fields.optional("picture_url", rule::web_url);
        let clear = fields.optional("clear_picture", rule::boolean);
        if fields.has("picture_url") && clear == Some(true) {
            let why = "a picture is either set or cleared";
            fields.refuse("clear_picture", Violation::new(IssueCode::Conflict, why));
        }
        if clear == Some(false) && !["name", "about", "picture_url"].iter().any(|field| fields.has(field)) {
            fields.refuse("clear_picture", Violation::new(IssueCode::Empty, "must be true, or be left out"));
        }
        fields.between(|| set_or_cleared(&["name", "about"]));
        let picture = url.map(NewPicture::At).or((clear == Some(true)).then_some(NewPicture::Clear));
        Some((name, about, picture))
    })
}

async fn found(call: &mut ChannelCall) -> Outcome {
    Ok(Reply::ok(&call.find::<ChannelProfile>(OWN).await?.unwrap_or_default()))
}

async fn show(call: &mut ChannelCall) -> Outcome {
    call.refresh(call.asked(read_refresh)?, ProfileOperation::Show).await?;
    found(call).await
}

/// Notes the result of one part of a patch. The error of a part names the parts that were applied before. `no_op`
/// counts as success, since another part may change something.
fn note(applied: &mut Vec<&'static str>, part: &'static str, done: Result<(), CallError>) -> Result<(), CallError> {
    match done {
        Ok(()) => applied.push(part),
        Err(error) if error.code == E::NoOp => {}
        Err(error) => {
            let mut details = error.details.clone().unwrap_or_else(|| json!({}));
            if !details.is_object() {
                return Err(error);
            }
            details["applied"] = json!(applied);
            return Err(error.with_details(details));
        }
    }
    Ok(())
}

async fn patch(call: &mut ChannelCall) -> Outcome {
    let (name, about, picture) = parse_patch(&call.object().await?)?;
    let mut applied = Vec::new();
    if let Some(name) = name {
        let done = call.operate(ProfileOperation::SetName { name }).await;
        note(&mut applied, "name", done.map(drop))?;
    }
    if let Some(about) = about {
        let done = call.operate(ProfileOperation::SetAbout { about }).await;
        note(&mut applied, "about", done.map(drop))?;
    }
    if let Some(picture) = picture {
        let done = set_picture(call, picture).await;
        note(&mut applied, "picture", done)?;
    }
    if applied.is_empty() {
        return Err(CallError::no_op("the profile has these values already"));
    }
    found(call).await
}

async fn set_picture(call: &mut ChannelCall, picture: NewPicture) -> Result<(), CallError> {
    let picture = match picture {
        NewPicture::At(url) => Some(call.fetch_picture(&url).await?),
        NewPicture::Clear => None,
    };
    call.operate(ProfileOperation::SetPicture { picture }).await.map(drop)
}
