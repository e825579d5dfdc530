//! What the channel asks about people.

use model::contact::ContactCheck;
use network::operation::Answer;
use network::operation::contacts::{ContactAnswer, ContactOperation};
use uuid::Uuid;

use crate::world::{FRIEND, World, friend};

#[tokio::test(flavor = "multi_thread")]
async fn numbers_that_somebody_has_are_told_from_those_that_nobody_has() {
    let mut world = World::new().await;
    let mut line = world.pair().await;
    let nobody = "15550009999".to_owned();
    let operation = ContactOperation::Check { phones: vec![nobody.clone(), FRIEND.to_owned()] };
    let (_, answer) = line.ask(Uuid::new_v4(), operation.into()).await;
    let checks = match answer.unwrap() {
        Answer::Contacts(ContactAnswer::Checked(checks)) => checks,
        other => panic!("{other:?}"),
    };
    let [free, taken] = checks.as_slice() else { panic!("{checks:?}") };
    assert_eq!(*free, ContactCheck { input: nobody, exists: false, id: None, lid: None, is_business: false });
    assert_eq!((taken.input.as_str(), taken.exists, &taken.id), (FRIEND, true, &Some(friend())));
    assert!(taken.lid.as_ref().is_some_and(|lid| lid.is_lid()), "{taken:?}");
}
