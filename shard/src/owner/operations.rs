//! What the network does for a channel besides messages: requested here, answered by an event of the session, and taken
//! into the projection before the caller gets the answer. Notices of what others did are handled here, too.
//!
//! An operation needs a connected channel, and waits a little while the channel recovers. If the session ends before
//! the answer, the operation is requested again in the next one, under the same id.

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

/// Seconds after which a caller should retry if the channel did not recover in time.
const RECOVERY_SECONDS: u32 = 2;

/// Maximum number of a channel's operations in progress, including those that wait.
const MOST_AT_ONCE: usize = 64;

/// How long the session's transport may take to accept a request.
const WRITE_PATIENCE: Duration = Duration::from_secs(5);

/// How many times an operation is rebuilt because the state was changed elsewhere at the same moment.
const MOST_REBASES: u32 = 3;

type Reply = oneshot::Sender<Result<Worked, CallError>>;

/// Operations in progress or waiting. Boxed, because the map keeps its capacity: each login makes requests.
#[derive(Default)]
pub struct Operations(HashMap<Uuid, Box<PendingOperation>>);

struct PendingOperation {
    operation: Operation,
    /// `None`: requested by the gateway itself.
    reply: Option<Reply>,
    /// An earlier attempt may have succeeded.
    again: bool,
    /// Written to the current session.
    written: bool,
    deadline: Instant,
    /// How many times the account's state was changed elsewhere at the same moment.
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

    /// Called when the session has ended: unanswered operations wait for the next one.
    pub fn interrupted(&mut self) {
        let until = Instant::now() + RECOVERY_PATIENCE;
        for pending in self.0.values_mut().filter(|pending| pending.written) {
            pending.written = false;
            pending.again = true;
            pending.deadline = pending.deadline.min(until);
        }
    }

    /// Refuses all operations, because the channel does not run any more.
    fn refuse(&mut self, error: &CallError) {
        self.0.drain().for_each(|(_, pending)| pending.answer(Err(error.clone())));
    }

    /// Fails operations that have waited too long.
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

    /// The operations that were not written to the session.
    fn unwritten(&self) -> Vec<Uuid> {
        self.0.iter().filter(|(_, pending)| !pending.written).map(|(id, _)| *id).collect()
    }
}

/// Whether an earlier attempt of the same call may be the cause of this error: the target state is reached, the object
/// is gone, or was the last that the plan allows.
fn may_be_done(error: &CallError) -> bool {
    use ErrorCode::{ChatNotFound, NoOp, NotFound, PlanLimit};
    matches!(error.code, NoOp | NotFound | ChatNotFound | PlanLimit)
}

/// Whether a channel is connected, or will be by itself.
fn may_operate(status: Status) -> bool {
    matches!(status, Status::Connected | Status::Connecting | Status::Reconnecting)
}

impl Channel {
    /// Starts an operation: requests it from the network, waits for the channel to recover, or refuses it.
    ///
    /// # Errors
    /// [`LeadershipLost`] if the ownership has ended.
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

    /// Whether somebody is a contact of the channel.
    fn is_contact(&self, id: &Address) -> bool {
        let mut batch = Projected::default();
        let rows = Rows::new(&self.owner.reader, self.row.id, &mut batch);
        self.with_context(Timestamp::now(), |context| rows.has::<ContactRow>(context.best(id).as_str()))
    }

    /// Does an operation that needs no network, while there is none.
    async fn do_alone(&mut self, operation: &Operation, again: bool, answer: Answer) -> Answered<Worked> {
        self.judge(operation, again)?;
        self.project(|rows, context| projection::absorb(operation, &answer, rows, context)).await?;
        Ok(Worked::Done(OwnerResponse::Operated(Box::new(answer))))
    }

    /// Checks whether an operation is possible; `again` if an earlier attempt may have succeeded.
    fn judge(&self, operation: &Operation, again: bool) -> Result<(), CallError> {
        let mut batch = Projected::default();
        let rows = Rows::new(&self.owner.reader, self.row.id, &mut batch);
        let judged = self.with_context(Timestamp::now(), |context| projection::check(operation, &rows, context));
        judged.or_else(|error| if again && may_be_done(&error) { Ok(()) } else { Err(error) })
    }

    /// Called after a transition: refuses what waits if the channel does not run any more.
    pub fn review_operations(&mut self) {
        if self.row.deleted || !may_operate(self.row.status) {
            let error = self.refuse_send(self.row.status);
            self.operations.refuse(&error);
        }
    }

    /// Requests what waited for the session, and what the gateway does not know yet.
    ///
    /// # Errors
    /// [`LeadershipLost`] if the ownership has ended.
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
            // An earlier session requested this, and the network forgets it with the session.
            self.begin_operation(Uuid::new_v4(), operation, true, None).await?;
        }
        for id in self.operations.unwritten() {
            self.ask(id).await;
        }
        Ok(())
    }

    /// Forgets what was synced before a new pairing: the network's side may be different now.
    pub async fn clear_sync(&mut self) -> Result<(), LeadershipLost> {
        self.project(|rows, _| rows.replace_all::<Synced>(&[])).await
    }

    /// Requests something and ignores the answer; does nothing without a session.
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
            // An event reports the end of the session; the operation waits for the next one.
            Ok(Err(error)) => tracing::debug!(channel = %self.row.id, %error, "an operation was not written"),
            Err(_) => session.kill(),
        }
    }

    /// Handles the network's answer.
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
                // Rebuilt on top of the other device's change, whose notice came before.
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

    /// Stores the phone addresses of LIDs that an answer discloses.
    async fn learn_lids(&mut self, answer: &Answer) -> Result<(), LeadershipLost> {
        /// People per submission: an address book holds thousands.
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

    /// Changes the projection in a commit of its own.
    pub async fn project(&mut self, change: impl FnOnce(&mut Rows<'_>, &Context<'_>)) -> Result<(), LeadershipLost> {
        let mut batch = Batch::default();
        self.project_in(&mut batch, Timestamp::now(), change);
        for command in batch.commands {
            self.commit(command).await?;
        }
        Ok(())
    }

    /// Adds a change of the projection to the batch.
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

    /// Adds a notice to the batch.
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
            // Chats that the channel ignores have no events.
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
