//! Stories. They are posted and deleted like messages are sent: never lost and never doubled.

use model::address::Address;
use model::error::{CallError, ErrorCode};
use model::id::MessageId;
use model::message::Content;
use model::page::ListId;
use model::send::{StoryContent, StoryRequest};
use model::story::Story;
use model::time::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use shard::call::read::Filter;
use shard::call::request::CheckSend;
use shard::call::{Send, SendBody, SentStatus};
use shard::cluster::MediaRoom;
use shard::projection::{PostedStory, StoryView};

use super::media::FETCHED;
use crate::failure;
use crate::projection::{Page, check_people};
use crate::reply::{List, Outcome, Reply};
use crate::request_context::ChannelCall;
use crate::route::{DELETE, GET, POST, Route};

pub fn routes() -> Vec<Route> {
    vec![
        Route::channel(POST, "/v1/channels/{id}/stories", post)
            .plan_blocks()
            .doc("post_story", "Post a story")
            .about("It is shown for 24 hours. Without `recipients`, the account's privacy settings decide who sees it.")
            .body_schema(
                |_| StoryRequest::schema(),
                vec![("text", json!({ "type": "text", "text": "Open until eight", "background_color": "#1E6E4F" }))],
            )
            .accepted::<StoryPosted>()
            .on_network()
            .errors(FETCHED)
            .errors(&[ErrorCode::UndeliverableRecipient, ErrorCode::PlanLimit]),
        Route::channel(DELETE, "/v1/channels/{id}/stories/{story_id}", delete)
            .doc("delete_story", "Delete a story for everyone")
            .accepted::<StoryDeleted>()
            .on_network()
            .errors(&[ErrorCode::StorageFull]),
        Route::channel(GET, "/v1/channels/{id}/stories/{story_id}/views", views)
            .doc("list_story_views", "List the views of a story")
            .query(|query| Page::read(query, ListId::only()))
            .ok::<StoryViews>(),
    ]
}

#[derive(Serialize, JsonSchema)]
struct StoryPosted {
    /// Id of the story.
    story_id: String,
    client_ref: Option<String>,
    #[schemars(extend("enum" = ["sent", "queued"]))]
    status: &'static str,
}

#[derive(Serialize, JsonSchema)]
struct StoryDeleted {
    /// Id of the story.
    story_id: String,
    #[schemars(extend("enum" = ["sent", "queued"]))]
    status: &'static str,
}

fn word(status: SentStatus) -> &'static str {
    match status {
        SentStatus::Sent => "sent",
        SentStatus::Queued => "queued",
    }
}

async fn post(call: &mut ChannelCall) -> Outcome {
    let asked = call.send_object().await?;
    let StoryRequest { says, style, recipients, client_ref } = StoryRequest::parse(&asked, &call.app.config.suffixes)?;
    // Dropped early: a parsed body takes several times its bytes of memory, and posting may take ten seconds.
    drop(asked);
    check_people(call, recipients.as_deref().unwrap_or_default()).await?;
    let story = |says| Content::Story(Box::new(Story::new(says, style, recipients)));
    let (body, room) = match says {
        StoryContent::Ready(says) => (SendBody::Content(story(says)), None),
        StoryContent::Media(media) => {
            // Checked first, so that nothing is fetched for a channel that cannot send.
            call.ask(CheckSend(None)).await?;
            let (customer, channel) = (call.customer_id(), call.channel.id);
            let (fetched, room) =
                call.cluster().send_media(customer, channel, &media, &["media_url"], &call.context()).await?;
            let SendBody::Media { content, media } = fetched else { return Err(failure::unexpected(&"no media")) };
            (SendBody::Media { content: story(content), media }, room)
        }
    };
    let (story_id, status) = send(call, body, room, client_ref.clone()).await?;
    Ok(Reply::accepted(&StoryPosted { story_id: story_id.0, client_ref, status }))
}

async fn delete(call: &mut ChannelCall) -> Outcome {
    let story_id = MessageId(call.parameter("story_id").to_owned());
    let deletion = SendBody::Content(Content::StoryDelete { story: story_id.clone() });
    let (_, status) = send(call, deletion, None, None).await?;
    Ok(Reply::accepted(&StoryDeleted { story_id: story_id.0, status }))
}

/// Sends under an id that is minted before the owner is called, so that a retry at another owner is the same send.
async fn send(
    call: &mut ChannelCall,
    body: SendBody,
    media_room: Option<MediaRoom>,
    client_ref: Option<String>,
) -> Result<(MessageId, &'static str), CallError> {
    let message_id = MessageId::mint(rand::random());
    let (to, around, media_room) = (Address::stories(), Box::default(), media_room.map(Box::new));
    let sent = call.ask(Send { message_id, to, body, around, client_ref, media_room }).await?;
    Ok((sent.message_id, word(sent.status)))
}

/// A viewer of a story, and the time of the first view.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "StoryView")]
struct ViewShown {
    /// Address of the viewer.
    viewer: String,
    /// Time of the first view in Unix seconds.
    viewed_at: i64,
}

/// A page of views, and the number of all views.
#[derive(Serialize, JsonSchema)]
struct StoryViews {
    data: Vec<ViewShown>,
    count: u64,
    next_cursor: Option<String>,
}

async fn views(call: &mut ChannelCall) -> Outcome {
    let story_id = MessageId(call.parameter("story_id").to_owned());
    let page = call.asked(|query| call.page_under::<StoryView>(query, StoryView::under(&story_id)))?;
    let story = call.find::<PostedStory>(story_id.as_str()).await?;
    let story = story.filter(|story| story.is_there(Timestamp::now()));
    let story = story.ok_or_else(|| CallError::not_found("story", story_id.as_str()))?;
    let List { data, next_cursor } = call.page_of::<StoryView>(Filter::All, page).await?;
    let show =
        |view: StoryView| ViewShown { viewer: view.viewer.to_string(), viewed_at: view.viewed_at.unix_seconds() };
    let data = data.into_iter().map(show).collect();
    Ok(Reply::ok(&StoryViews { data, count: story.views, next_cursor: next_cursor.flatten() }))
}
