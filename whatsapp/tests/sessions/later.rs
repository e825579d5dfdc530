//! What this driver does not do is refused by the name of its area, and its page lists these names.

use model::message::Content;
use network::driver::SessionEvent;
use network::operation::account::{BlacklistOperation, PrivacyOperation, ProfileOperation};
use network::operation::business::BusinessOperation;
use network::operation::calls::CallOperation;
use network::operation::chats::ChatOperation;
use network::operation::communities::CommunityOperation;
use network::operation::contacts::ContactOperation;
use network::operation::labels::LabelOperation;
use network::operation::newsletters::NewsletterOperation;
use network::operation::presence::PresenceOperation;
use network::operation::{Operation, RefusedKind};
use uuid::Uuid;

use crate::world::{World, friend};

const PAGE: &str = include_str!("../../../docs/operate/whatsapp.md");

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_yet_is_refused_by_a_name_that_the_page_lists() {
    let mut world = World::new().await;
    let mut line = world.pair().await;
    let (_, listed) = PAGE.split_once("501 is `not_implemented`").unwrap();
    let is_listed = |feature: &str| assert!(listed.contains(&format!("`{feature}`")), "{feature} is not in the list");
    let operations = [
        (Operation::Blacklist(BlacklistOperation::List), "blacklist"),
        (Operation::Business(BusinessOperation::Show), "business"),
        (Operation::Calls(CallOperation::Reject { call_id: "1".into(), from: None }), "calls"),
        (Operation::Chats(ChatOperation::List), "chats"),
        (Operation::Communities(CommunityOperation::List), "communities"),
        (Operation::Contacts(ContactOperation::List), "contacts"),
        (Operation::Labels(LabelOperation::List), "labels"),
        (Operation::Newsletters(NewsletterOperation::List), "newsletters"),
        (Operation::Presence(PresenceOperation::Unsubscribe { contact: friend() }), "presences"),
        (Operation::Privacy(PrivacyOperation::Show), "privacy"),
        (Operation::Profile(ProfileOperation::Show), "profile"),
    ];
    for (operation, feature) in operations {
        let refused = line.ask(Uuid::new_v4(), operation).await.1.unwrap_err();
        assert_eq!((refused.kind, refused.text.as_str()), (RefusedKind::Unsupported, feature));
        is_listed(feature);
    }
    line.send_to(friend(), "3EB0A1", Content::Product { product_id: "1".into() }).await;
    let refused = line.until(|event| match event {
        SessionEvent::Refused { refused, .. } => Some((**refused).clone()),
        _ => None,
    });
    let refused = refused.await;
    assert_eq!((refused.kind, refused.text.as_str()), (RefusedKind::Unsupported, "messages.product"));
    is_listed("messages.product");
}
