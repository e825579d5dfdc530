//! Calls to a channel's task other than sends and operations: lifecycle, pairing, settings, deletion.

use std::time::{Duration, Instant};

use model::error::CallError;
use model::limit::LimitScope;
use model::status::{self, OnPairing, Refusal, Status, Trigger};
use raft::machine::View;
use tokio::sync::oneshot;
use uuid::Uuid;

use super::channel::{Channel, PairCodeRequest, Worked};
use super::committer::Answered;
use super::lifecycle::Extra;
use crate::call::request::{Lifecycle, PairCode, StatusHistory};
use crate::call::{OwnerResponse, QrCode, Work};
use crate::command::{Command, Reply};
use crate::keys;
use crate::records::{StatusChange, decode};

/// A channel gives at most one new pair code in this time.
const PAIR_CODE_EVERY: Duration = Duration::from_secs(60);

impl Channel {
    /// Does one piece of work that is not a send.
    pub async fn do_work(&mut self, work: Work, call_id: Uuid) -> Answered<Worked> {
        match work {
            Work::Lifecycle(Lifecycle { trigger, by_operator }) => self.lifecycle(trigger, by_operator, call_id).await,
            Work::Qr => self.show_qr().await,
            Work::PairCode(wanted) => self.pairing(wanted).await,
            Work::DeleteChannel => {
                self.close_in_order().await?;
                // Each of them was answered with a 202, so it ends in an event, as at any other end of the channel.
                self.end_sends("the channel was deleted").await?;
                self.start_at = None;
                self.resume_at = None;
                let owner = self.owner.clone();
                let _turn = owner.wiping.acquire().await;
                let delete = Command::DeleteChannel { channel: self.row.id, customer: self.row.customer };
                while self.commit(delete.clone()).await? == Reply::More {}
                if !self.row.deleted && (self.row.version > 0 || self.row.credentials) {
                    self.owner.status_counts.leaves(self.row.status);
                }
                self.row.deleted = true;
                self.row.status = Status::Pending;
                // Callers that wait for the channel need not wait any longer.
                self.qr_waiters.clear();
                self.review_operations();
                Ok(Worked::Done(OwnerResponse::Nothing))
            }
            Work::CheckSend { to } => {
                Ok(self.check_send(to.as_ref()).map(|()| Worked::Done(OwnerResponse::Nothing))?)
            }
            Work::ChangeSettings(change) => self.change_settings(change, call_id).await,
            Work::StatusHistory(StatusHistory { limit, before }) => {
                let (from, to) = keys::status_changes(self.row.id, before);
                let rows = self.owner.reader.scan_back(&from, &to, limit);
                let change =
                    |(key, change): &(Vec<u8>, Vec<u8>)| (keys::version_of_change(key), decode::<StatusChange>(change));
                let changes = rows.iter().map(change).collect();
                Ok(Worked::Done(OwnerResponse::StatusHistory(changes)))
            }
            Work::Export(export) => self.export(export).await,
            Work::Import(import) => self.import(import, call_id).await,
            // Sends and operations are handled by the caller; the status, media and reads do not reach this task.
            Work::GetStatus
            | Work::Send(_)
            | Work::Operate { .. }
            | Work::Media(_)
            | Work::MessageMedia { .. }
            | Work::Read(_) => Err(CallError::internal_error().into()),
        }
    }

    async fn lifecycle(&mut self, trigger: Trigger, by_operator: bool, call_id: Uuid) -> Answered<Worked> {
        if self.row.moved_by == Some(call_id) {
            return Ok(Worked::Done(OwnerResponse::ChannelStatus(self.owner.channel_status_of(&self.row))));
        }
        if trigger == Trigger::Enable && self.row.disabled_by_operator && !by_operator {
            return Err(CallError::insufficient_scope(&["operator".to_owned()], &[]).into());
        }
        let before = self.row.status;
        let moves = status::transition(before, trigger, self.row.credentials).is_ok();
        if moves && self.needs_slot(trigger) && self.owner.node.slots.is_full() {
            return Err(CallError::worker_at_capacity().into());
        }
        if moves && matches!(trigger, Trigger::Disconnect | Trigger::Restart | Trigger::Disable) {
            // Before the answer: nothing of a channel that is being stopped may still be on its way.
            self.close_in_order().await?;
        }
        if moves && trigger == Trigger::Logout {
            self.open_to_unlink().await;
        }
        let extra = Extra { by_operator, call_id: Some(call_id), ..Extra::default() };
        match self.transition(trigger, Some(extra)).await? {
            Ok(()) => Ok(Worked::Done(OwnerResponse::ChannelStatus(self.owner.channel_status_of(&self.row)))),
            Err(refusal) => Err(self.refusal(refusal, trigger, before).into()),
        }
    }

    /// Whether a call starts a session on a channel that has none.
    fn needs_slot(&self, trigger: Trigger) -> bool {
        let starts = matches!(trigger, Trigger::Connect | Trigger::Restart | Trigger::PairingRequested);
        starts && self.running.is_none()
    }

    pub fn refusal(&self, refusal: Refusal, trigger: Trigger, status: Status) -> CallError {
        match refusal {
            _ if self.row.deleted => CallError::channel_not_found(),
            Refusal::NoOp => CallError::no_op(format!("the channel is {status} already"))
                .with_details(serde_json::json!({ "field": "status", "value": status })),
            Refusal::Unavailable => CallError::channel_unavailable(status, self.row.reason),
            Refusal::NotDisabled => CallError::not_disabled(status),
            Refusal::Invalid => {
                let action = match trigger {
                    Trigger::Connect => "connect",
                    Trigger::Disconnect => "disconnect",
                    Trigger::Restart => "restart",
                    Trigger::Logout => "logout",
                    Trigger::Imported => "import",
                    _ => "this",
                };
                CallError::invalid_lifecycle_transition(status, action, &status::allowed_from(trigger))
            }
        }
    }

    /// Whether a pairing has to be started; false if one is running. `Err` says why there can be none.
    fn judge_pairing(&self, unavailable: &CallError) -> Result<bool, CallError> {
        if self.row.deleted {
            return Err(CallError::channel_not_found());
        }
        match status::on_pairing(self.row.status, self.row.credentials) {
            OnPairing::Start => Ok(true),
            OnPairing::Running => Ok(false),
            OnPairing::Unavailable => Err(unavailable.clone()),
            OnPairing::Disabled => Err(CallError::channel_unavailable(self.row.status, self.row.reason)),
        }
    }

    /// Starts a pairing when the status permits it.
    async fn begin_pairing(&mut self, unavailable: CallError) -> Answered<()> {
        if !self.judge_pairing(&unavailable)? {
            return Ok(());
        }
        if self.owner.node.slots.is_full() {
            return Err(CallError::worker_at_capacity().into());
        }
        let begun = self.transition(Trigger::PairingRequested, None).await?;
        Ok(begun.map_err(|_| unavailable)?)
    }

    async fn show_qr(&mut self) -> Answered<Worked> {
        self.begin_pairing(CallError::no_qr(self.row.status)).await?;
        Ok(match self.shown_qr() {
            Some(code) => Worked::Done(OwnerResponse::Qr(code)),
            None => Worked::QrSoon(self.await_qr()),
        })
    }

    /// The QR text, if a phone can still scan it.
    fn shown_qr(&self) -> Option<QrCode> {
        let shown = self.qr.as_ref()?;
        shown.until.is_none_or(|until| until > Instant::now()).then(|| shown.code.clone())
    }

    fn await_qr(&mut self) -> oneshot::Receiver<QrCode> {
        let (waiter, code) = oneshot::channel();
        // Waiters that gave up are removed when the next one comes.
        self.qr_waiters.retain(|waiter| !waiter.is_closed());
        self.qr_waiters.push(waiter);
        code
    }

    async fn pairing(&mut self, wanted: PairCode) -> Answered<Worked> {
        let now = Instant::now();
        let unavailable = CallError::pair_code_unavailable(self.row.status);
        self.judge_pairing(&unavailable)?;
        // Checked before the pairing begins, so that a refused call begins nothing.
        if let Some(wait) = self.pair_code_wait(now) {
            let seconds = wait.as_secs_f64().ceil() as u32;
            return Err(CallError::rate_limited(LimitScope::Channel, 1, seconds).into());
        }
        self.begin_pairing(unavailable).await?;
        let ready = if self.shown_qr().is_some() { None } else { Some(self.await_qr()) };
        let running = self.running.as_ref().ok_or_else(|| CallError::pair_code_failed(None))?;
        let session = running.session.clone();
        let (given, answer) = oneshot::channel();
        self.pair_code = Some(PairCodeRequest { at: now, answer, given: false });
        Ok(Worked::Pairing { wanted, session, ready, given })
    }

    /// Time until another pair code may be requested. A request that got no code does not count.
    fn pair_code_wait(&mut self, now: Instant) -> Option<Duration> {
        let asked = self.pair_code.as_mut()?;
        match asked.answer.try_recv() {
            Ok(()) => asked.given = true,
            Err(oneshot::error::TryRecvError::Closed) if !asked.given => {
                self.pair_code = None;
                return None;
            }
            Err(_) => {}
        }
        (asked.at + PAIR_CODE_EVERY).checked_duration_since(now)
    }
}
