//! What the network does for a channel beside messages: asked here, answered by an event of the session, taken into the
//! projection before the caller hears of it. And the notices of what others did.
//!
//! An operation needs a connected channel; while the channel recovers it waits a little. One whose session ended before
//! the answer is asked again in the next one, under the same id.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use model::address::Address;
use model::error::{CallError, ErrorCode};
use model::id::MessageId;
use model::status::Status;
use model::time::Timestamp;
use network::driver::ItemId;
use network::notice::{CallNews, News, Notice};
use network::operation::{Answer, Operation, Refused};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::channel::{Batch, Channel, Worked};
use super::committer::{Answered, LeadershipLost, told};
use super::events::About;
use super::number_checks::looked_up;
use crate::call::OwnerResponse;
use crate::command::{Command, NewEvent};
use crate::history::{self, Direction};
use crate::projection::contacts::ContactRow;
use crate::projection::{self, Context, EmittedEvent, Projected, Rows, Synced};
use crate::sameness;

/// How long an operation waits for a channel that recovers.
const RECOVERY_PATIENCE: Duration = Duration::from_secs(5);

/// How long the network may take to answer.
const ANSWER_PATIENCE: Duration = Duration::from_secs(20);

/// The longest that an operation takes at the owner.
pub const OPERATION_PATIENCE: Duration = Duration::from_secs(25);

/// When a caller should try again whose channel did not recover in time.
const RECOVERY_SECONDS: u32 = 2;

/// How many operations of a channel are under way at once, waiting ones included.
const MOST_AT_ONCE: usize = 64;

/// How long the session's transport may take to swallow a question.
const WRITE_PATIENCE: Duration = Duration::from_secs(5);

/// How many times an operation is made anew whose state was changed elsewhere in the same moment.
const MOST_REBASES: u32 = 3;

type Reply = oneshot::Sender<Result<Worked, CallError>>;

/// What is asked, or waits to be. Boxed, as the map keeps its room: each session asks once it is logged in.
#[derive(Default)]
pub struct Operations(HashMap<Uuid, Box<PendingOperation>>);

struct PendingOperation {
    operation: Operation,
    /// `None`: asked by the gateway itself.
    reply: Option<Reply>,
    /// May have been done before.
    again: bool,
    /// Written to the session that runs.
    written: bool,
    deadline: Instant,
    /// How many times the account's state was changed elsewhere in the same moment.
    overtaken: u32,
}

impl PendingOperation {
    fn answer(self, answer: Result<Worked, CallError>) {
        if let Some(reply) = self.reply {
            // A caller that has gone away needs no answer.
            let _ = reply.send(answer);
        }
    }
}

impl Operations {
    pub fn next_deadline(&self) -> Option<Instant> {
        self.0.values().map(|pending| pending.deadline).min()
    }

    /// The session has ended: what is not answered waits for the next one.
    pub fn interrupted(&mut self) {
        let until = Instant::now() + RECOVERY_PATIENCE;
        for pending in self.0.values_mut().filter(|pending| pending.written) {
            pending.written = false;
            pending.again = true;
            pending.deadline = pending.deadline.min(until);
        }
    }

    /// Answers all with the same, because the channel does not run any more.
    fn refuse(&mut self, error: &CallError) {
        self.0.drain().for_each(|(_, pending)| pending.answer(Err(error.clone())));
    }

    /// Gives up what has waited too long.
    pub fn expire(&mut self, now: Instant, status: Status) {
        for (_, pending) in self.0.extract_if(|_, pending| pending.deadline <= now) {
            let error = if pending.written {
                CallError::upstream_timeout()
            } else {
                CallError::not_connected(status).with_retry_after(RECOVERY_SECONDS)
            };
            pending.answer(Err(error));
        }
    }

    /// The operations that the session has not been given.
    fn unwritten(&self) -> Vec<Uuid> {
        self.0.iter().filter(|(_, pending)| !pending.written).map(|(id, _)| *id).collect()
    }
}

/// Whether what stands against an operation may be what the very same call has done before: the target state is reached, the
/// thing is gone, or was the last that the plan allows.
fn may_be_done(error: &CallError) -> bool {
    use ErrorCode::{ChatNotFound, NoOp, NotFound, PlanLimit};
    matches!(error.code, NoOp | NotFound | ChatNotFound | PlanLimit)
}

/// Whether a channel is connected, or will be by itself.
fn may_operate(status: Status) -> bool {
    matches!(status, Status::Connected | Status::Connecting | Status::Reconnecting)
}

impl Channel {
    /// Takes an operation on: asks the network, waits for the channel to recover, or answers why not.
    ///
    /// # Errors
    /// [`LeadershipLost`] when the ownership has ended.
    pub async fn begin_operation(
        &mut self,
        id: Uuid,
        operation: Operation,
        again: bool,
        reply: Option<Reply>,
    ) -> Result<(), LeadershipLost> {
        let deadline = Instant::now() + RECOVERY_PATIENCE;
        let pending = Box::new(PendingOperation { operation, reply, again, written: false, deadline, overtaken: 0 });
        if !self.row.deleted
            && !self.is_logged_in()
            && let Some(answer) = projection::alone(&pending.operation)
        {
            let answer = told(self.do_alone(&pending.operation, again, answer).await)?;
            pending.answer(answer);
            return Ok(());
        }
        if self.row.deleted || !may_operate(self.row.status) {
            pending.answer(Err(self.refuse_send(self.row.status)));
            return Ok(());
        }
        if self.operations.0.len() >= MOST_AT_ONCE {
            pending.answer(Err(CallError::worker_at_capacity()));
            return Ok(());
        }
        let numbers = looked_up(&pending.operation, |contact| self.is_contact(contact));
        if let Err(error) = self.number_checks.admit(numbers, Instant::now()) {
            pending.answer(Err(error));
            return Ok(());
        }
        self.operations.0.insert(id, pending);
        if self.is_logged_in() {
            self.ask(id).await;
        }
        Ok(())
    }

    /// Whether somebody is a contact of the channel's.
    fn is_contact(&self, id: &Address) -> bool {
        let mut batch = Projected::default();
        let rows = Rows::new(&self.owner.reader, self.row.id, &mut batch);
        self.with_context(Timestamp::now(), |context| rows.has::<ContactRow>(context.best(id).as_str()))
    }

    /// Does what needs no network while there is none.
    async fn do_alone(&mut self, operation: &Operation, again: bool, answer: Answer) -> Answered<Worked> {
        self.judge(operation, again)?;
        self.project(|rows, context| projection::absorb(operation, &answer, rows, context)).await?;
        Ok(Worked::Done(OwnerResponse::Operated(Box::new(answer))))
    }

    /// Says what stands against an operation, `again` when it may have been done before.
    fn judge(&self, operation: &Operation, again: bool) -> Result<(), CallError> {
        let mut batch = Projected::default();
        let rows = Rows::new(&self.owner.reader, self.row.id, &mut batch);
        let judged = self.with_context(Timestamp::now(), |context| projection::check(operation, &rows, context));
        judged.or_else(|error| if again && may_be_done(&error) { Ok(()) } else { Err(error) })
    }

    /// The channel has moved: where it does not run any more, nothing waits for it.
    pub fn review_operations(&mut self) {
        if self.row.deleted || !may_operate(self.row.status) {
            let error = self.refuse_send(self.row.status);
            self.operations.refuse(&error);
        }
    }

    /// Asks what waited for the session, and for what the gateway does not know yet.
    ///
    /// # Errors
    /// [`LeadershipLost`] when the ownership has ended.
    pub async fn take_up_operations(&mut self) -> Result<(), LeadershipLost> {
        for (area, operation) in projection::to_sync() {
            let mut batch = Projected::default();
            let synced = Rows::new(&self.owner.reader, self.row.id, &mut batch).has::<Synced>(area);
            if !synced {
                self.begin_operation(Uuid::new_v4(), operation, false, None).await?;
            }
        }
        let mut batch = Projected::default();
        let resumed = projection::to_resume(&Rows::new(&self.owner.reader, self.row.id, &mut batch), Timestamp::now());
        if let Some(operation) = resumed {
            // An earlier session has asked for this, and the network forgets it with the session.
            self.begin_operation(Uuid::new_v4(), operation, true, None).await?;
        }
        for id in self.operations.unwritten() {
            self.ask(id).await;
        }
        Ok(())
    }

    /// What is known of the network's side belongs to another life of the phone.
    pub async fn clear_sync(&mut self) -> Result<(), LeadershipLost> {
        self.project(|rows, _| rows.replace_all::<Synced>(&[])).await
    }

    /// Asks something whose answer nobody waits for; without a session, nothing.
    pub async fn ask_unheeded(&mut self, operation: impl Into<Operation>) {
        let Some(running) = self.running.as_ref().filter(|running| running.logged_in) else { return };
        let session = running.session.clone();
        match tokio::time::timeout(WRITE_PATIENCE, session.operate(Uuid::new_v4(), operation.into())).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(channel = %self.row.id, %error, "an operation was not written"),
            Err(_) => session.kill(),
        }
    }

    async fn ask(&mut self, id: Uuid) {
        let Some(session) = self.running.as_ref().map(|running| running.session.clone()) else { return };
        let Some(pending) = self.operations.0.get(&id) else { return };
        if let Err(error) = self.judge(&pending.operation, pending.again) {
            if let Some(pending) = self.operations.0.remove(&id) {
                pending.answer(Err(error));
            }
            return;
        }
        let operation = pending.operation.clone();
        match tokio::time::timeout(WRITE_PATIENCE, session.operate(id, operation)).await {
            Ok(Ok(())) => {
                if let Some(pending) = self.operations.0.get_mut(&id) {
                    pending.written = true;
                    pending.deadline = Instant::now() + ANSWER_PATIENCE;
                }
            }
            // The session's end will tell; the operation waits for the next one.
            Ok(Err(error)) => tracing::debug!(channel = %self.row.id, %error, "an operation was not written"),
            Err(_) => session.kill(),
        }
    }

    /// The network answered.
    pub async fn operated(&mut self, id: Uuid, result: Result<Box<Answer>, Refused>) -> Result<(), LeadershipLost> {
        let Some(mut pending) = self.operations.0.remove(&id) else { return Ok(()) };
        let answer = match result {
            Ok(answer) => {
                let operation = pending.operation.clone();
                self.learn_lids(&answer).await?;
                self.project(|rows, context| projection::absorb(&operation, &answer, rows, context)).await?;
                Ok(Worked::Done(OwnerResponse::Operated(answer)))
            }
            Err(refused)
                if pending.overtaken < MOST_REBASES && projection::is_overtaken(&pending.operation, &refused) =>
            {
                // Anew, over what the other device has made of it: the notice of that came before.
                pending.overtaken += 1;
                pending.written = false;
                let id = Uuid::new_v4();
                self.operations.0.insert(id, pending);
                self.ask(id).await;
                return Ok(());
            }
            Err(refused) => {
                tracing::debug!(channel = %self.row.id, code = refused.code, text = refused.text, "an operation was refused");
                Err(projection::refusal(&pending.operation, &refused))
            }
        };
        pending.answer(answer);
        Ok(())
    }

    /// Keeps the phone addresses behind LIDs that an answer tells.
    async fn learn_lids(&mut self, answer: &Answer) -> Result<(), LeadershipLost> {
        /// People that share a submission: an address book holds thousands.
        const AT_ONCE: usize = 50;
        for pairs in projection::disclosed(answer).chunks(AT_ONCE) {
            let mut batch = Batch::default();
            for (lid, phone) in pairs {
                self.learn_lid(&mut batch, lid.clone(), phone.clone(), Timestamp::now());
            }
            self.finish(batch).await?;
        }
        Ok(())
    }

    /// Changes the projection by itself, at once.
    pub async fn project(&mut self, change: impl FnOnce(&mut Rows<'_>, &Context<'_>)) -> Result<(), LeadershipLost> {
        let mut batch = Batch::default();
        self.project_in(&mut batch, Timestamp::now(), change);
        for command in batch.commands {
            self.commit(command).await?;
        }
        Ok(())
    }

    /// Adds a change of the projection to the turn.
    pub fn project_in(&self, batch: &mut Batch, at: Timestamp, change: impl FnOnce(&mut Rows<'_>, &Context<'_>)) {
        let writes = self.with_context(at, |context| {
            let mut rows = Rows::new(&self.owner.reader, self.row.id, &mut batch.projected);
            change(&mut rows, context);
            rows.into_writes()
        });
        if !writes.is_empty() {
            let (channel, customer) = (self.row.id, self.row.customer);
            batch.commands.extend(Command::project(channel, customer, writes, Vec::new()));
        }
    }

    /// Adds a notice to the turn.
    pub fn take_notice(&mut self, batch: &mut Batch, item: &ItemId, notice: Notice, at: Timestamp) {
        if let News::Call { call, news: CallNews::Offered { from, group, .. } } = &notice.news {
            self.turn_away(batch, call, from, group.is_none(), at);
        }
        if let Some((lid, phone)) = projection::disclosed_by(&notice) {
            self.learn_lid(batch, lid, phone, at);
        }
        let (writes, told) = self.with_context(at, |context| {
            let mut rows = Rows::new(&self.owner.reader, self.row.id, &mut batch.projected);
            let mut told = projection::take(&notice, &mut rows, context);
            // Conversations that the channel ignores have no events.
            told.retain(|told| !told.chat.as_ref().is_some_and(|chat| self.ignores_chat(chat)));
            (rows.into_writes(), told)
        });
        if writes.is_empty() && told.is_empty() {
            return;
        }
        let now = Timestamp::now();
        let event = |(place, EmittedEvent { payload, chat }): (usize, EmittedEvent)| -> NewEvent {
            let about = About { chat, ..About::default() };
            self.network_event(&item.0, &place.to_string(), at, payload, about, now)
        };
        let events = told.into_iter().enumerate().map(event).collect();
        let (channel, customer) = (self.row.id, self.row.customer);
        batch.commands.extend(Command::project(channel, customer, writes, events));
    }

    fn with_context<T>(&self, at: Timestamp, work: impl FnOnce(&Context<'_>) -> T) -> T {
        let own: Vec<Address> = [Some(self.own_address()), self.row.lid.clone()].into_iter().flatten().collect();
        let reader = &self.owner.reader;
        let phone_behind = |lid: &Address| self.phone_behind(lid);
        let lid_behind = |phone: &Address| self.lid_behind(phone);
        let stored = |direction: Direction, id: &MessageId, chat: &Address, author: Option<&Address>| match direction {
            Direction::Inbound => sameness::in_chat(reader, self.row.id, id, chat, author),
            Direction::Outbound => self.stored_message(id).filter(|row| {
                history::best(reader, self.row.id, &row.chat) == history::best(reader, self.row.id, chat)
            }),
        };
        work(&Context {
            suffixes: &self.owner.node.suffixes,
            own: &own,
            phone_behind: &phone_behind,
            lid_behind: &lid_behind,
            stored: &stored,
            allowed: &|quota| self.owner.node.allowed(self.row.customer, quota),
            at,
        })
    }
}

#[cfg(test)]
mod tests {
    use model::customer::Quota;

    use super::*;

    #[test]
    fn what_a_call_that_is_made_again_may_have_done_itself_does_not_stand_against_it() {
        let done = [
            CallError::no_op("the chat is as it should be already"),
            CallError::not_found("label", "1"),
            CallError::chat_not_found("15551230000@s.example"),
            CallError::plan_limit(Quota::Labels, 1, 1),
        ];
        assert!(done.iter().all(may_be_done));
        assert!(!may_be_done(&CallError::message_not_found("A")));
    }
}
