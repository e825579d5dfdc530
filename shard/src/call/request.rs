//! Typed requests to a channel's owner, each with its kind of reply. Between nodes a request is sent as [`Work`], and
//! its reply as [`OwnerResponse`].

use bytes::Bytes;
use model::address::Address;
use model::error::CallError;
use model::id::{MediaId, MessageId};
use model::status::Trigger;
use model::time::Timestamp;
use network::operation::{Answer as NetworkAnswer, Operation};
use serde::{Deserialize, Serialize};

use super::bundle::{Export, Exported, Import};
use super::media::{MediaPage, MediaWork};
use super::read::Read;
use super::{ChannelStatus, OwnerResponse, PairingCode, QrCode, Send, Sent, Work};
use crate::media::record::{MediaDirection, MediaRow};
use crate::records::StatusChange;
use crate::settings::{ChangeSettings, Changed};

/// A request to a channel's owner.
pub trait Request {
    type Reply;

    fn work(self) -> Work;

    /// The reply, if the response is of its kind.
    fn reply(response: OwnerResponse) -> Option<Self::Reply>;

    /// The reply to a request that may have failed.
    ///
    /// # Errors
    /// The error of the request, and `internal_error` for a reply of another kind, which is a defect of the owner.
    fn result(response: Result<OwnerResponse, CallError>) -> Result<Self::Reply, CallError> {
        Self::reply(response?).ok_or_else(|| {
            tracing::error!("an owner answered with another kind of result");
            CallError::internal_error()
        })
    }
}

/// Reads the status of the channel.
pub struct GetStatus;

/// A lifecycle call; `by_operator` distinguishes a disable by the operator from one by the account.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Lifecycle {
    pub trigger: Trigger,
    pub by_operator: bool,
}

/// The QR text; starts a pairing when the status permits.
pub struct ShowQr;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PairCode {
    pub phone_number: String,
    pub display_name: Option<String>,
}

/// Whether a send to this address, or a story, would be accepted now.
pub struct CheckSend(pub Option<Address>);

/// The media of a stored message, fetched from the network if its bytes are not stored.
pub struct MessageMedia(pub MessageId);

/// A page of media, newest first; without a direction, uploaded and inbound media.
pub struct ListMedia {
    pub limit: usize,
    pub before: Option<MediaId>,
    pub direction: Option<MediaDirection>,
}

/// An operation that the network does for the channel.
pub struct Operate(pub Operation);

/// A read that finds at most one row.
pub struct ReadOne(pub Read);

/// A read that finds rows.
pub struct ReadMany(pub Read);

/// A read of a page: its rows, and the id of the last row that was examined when the search was given up.
pub struct ReadPage(pub Read);

/// A read that finds rows, and how many there are in all.
pub struct ReadCounted(pub Read);

/// The directory has deleted the channel: ends its session and wipes it.
pub struct DeleteChannel;

/// Status changes before a position: a time, and the version that the change at that time made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StatusHistory {
    pub limit: usize,
    pub before: Option<(Timestamp, u64)>,
}

macro_rules! requests {
    ($($request:ty => $reply:ty: |$given:pat_param| $work:expr, $($response:pat => $got:expr),+;)*) => {$(
        impl Request for $request {
            type Reply = $reply;

            fn work(self) -> Work {
                let $given = self;
                $work
            }

            fn reply(response: OwnerResponse) -> Option<$reply> {
                match response {
                    $($response => Some($got),)+
                    _ => None,
                }
            }
        }
    )*};
}

requests! {
    GetStatus => ChannelStatus: |_| Work::GetStatus, OwnerResponse::ChannelStatus(live) => live;
    Lifecycle => ChannelStatus: |call| Work::Lifecycle(call), OwnerResponse::ChannelStatus(live) => live;
    ShowQr => QrCode: |_| Work::Qr, OwnerResponse::Qr(code) => code;
    PairCode => PairingCode: |code| Work::PairCode(code), OwnerResponse::PairCode(code) => code;
    Send => Sent: |send| Work::Send(send), OwnerResponse::Sent(sent) => sent;
    CheckSend => (): |Self(to)| Work::CheckSend { to }, OwnerResponse::Nothing => ();
    MessageMedia => MediaRow: |Self(message_id)| Work::MessageMedia { message_id },
        OwnerResponse::Media(Some(row)) => *row;
    MediaWork => Option<MediaRow>: |work| Work::Media(work), OwnerResponse::Media(row) => row.map(|row| *row);
    ListMedia => MediaPage: |Self { limit, before, direction }| {
        Work::Media(MediaWork::List { limit, before, direction })
    }, OwnerResponse::MediaPage(page) => page;
    Operate => NetworkAnswer: |Self(operation)| Work::Operate { operation: Box::new(operation), again: false },
        OwnerResponse::Operated(answer) => *answer;
    ReadOne => Option<Bytes>: |Self(read)| Work::Read(read), OwnerResponse::Row(row) => row;
    ReadMany => Vec<Bytes>: |Self(read)| Work::Read(read), OwnerResponse::Rows(rows) => rows;
    ReadPage => (Vec<Bytes>, Option<String>): |Self(read)| Work::Read(read),
        OwnerResponse::Page { rows, stopped_at } => (rows, stopped_at),
        // Earlier releases do not report where they gave up.
        OwnerResponse::Rows(rows) => (rows, None);
    ReadCounted => (Vec<Bytes>, usize): |Self(read)| Work::Read(read),
        OwnerResponse::Counted { rows, count } => (rows, count);
    ChangeSettings => Changed: |change| Work::ChangeSettings(change), OwnerResponse::Settings(changed) => changed;
    DeleteChannel => (): |_| Work::DeleteChannel, OwnerResponse::Nothing => ();
    Export => Exported: |export| Work::Export(export), OwnerResponse::Exported(part) => *part;
    Import => u64: |import| Work::Import(import), OwnerResponse::Imported { version } => version;
    StatusHistory => Vec<(u64, StatusChange)>: |page| Work::StatusHistory(page),
        OwnerResponse::StatusHistory(changes) => changes;
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use model::id::{ChannelId, CustomerId};
    use model::msgpack;

    use super::*;
    use crate::call::{Answer, OwnerRequest};
    use crate::stream::StreamRequest;

    #[test]
    fn requests_and_answers_go_between_nodes_as_former_releases_say_them() {
        #[derive(Serialize)]
        enum Former {
            Lifecycle { trigger: Trigger, by_operator: bool },
            PairCode { phone_number: String, display_name: Option<String> },
            StatusHistory { limit: usize, before: Option<(Timestamp, u64)> },
            Look,
        }
        #[derive(Serialize)]
        enum FormerAsk {
            Lives { channels: Vec<(CustomerId, ChannelId)> },
            Stream { customer: CustomerId, ask: StreamRequest },
        }
        #[derive(Serialize)]
        enum FormerDone {
            PairCode { code: String, expires_at: Timestamp },
            Lives(Vec<(ChannelId, ChannelStatus)>),
        }
        #[derive(Serialize)]
        enum FormerAnswer {
            NotOwner,
        }
        fn said(words: &impl Serialize) -> Vec<u8> {
            msgpack::to_vec_named(words).unwrap()
        }
        let (trigger, by_operator, at) = (Trigger::Disable, true, Timestamp(1_767_225_600_000));
        let (phone_number, display_name) = ("15551230001".to_owned(), Some("Desk".to_owned()));
        let code = PairCode { phone_number: phone_number.clone(), display_name: display_name.clone() };
        assert_eq!(said(&Lifecycle { trigger, by_operator }.work()), said(&Former::Lifecycle { trigger, by_operator }));
        assert_eq!(said(&code.work()), said(&Former::PairCode { phone_number, display_name }));
        let (limit, before) = (7, Some((at, 3)));
        assert_eq!(said(&StatusHistory { limit, before }.work()), said(&Former::StatusHistory { limit, before }));
        let made = OwnerResponse::PairCode(PairingCode { code: "ABCD".to_owned(), expires_at: at });
        assert_eq!(said(&made), said(&FormerDone::PairCode { code: "ABCD".to_owned(), expires_at: at }));
        assert_eq!(said(&Answer::NotLeader), said(&FormerAnswer::NotOwner));
        assert_eq!(said(&GetStatus.work()), said(&Former::Look));
        let statuses = OwnerRequest::ChannelStatuses { channels: Vec::new() };
        assert_eq!(said(&statuses), said(&FormerAsk::Lives { channels: Vec::new() }));
        assert_eq!(said(&OwnerResponse::ChannelStatuses(Vec::new())), said(&FormerDone::Lives(Vec::new())));
        let (customer, ask) = (CustomerId::random(), StreamRequest::UseTicket { digest: Bytes::new() });
        let stream = OwnerRequest::Stream { customer, request: ask.clone() };
        assert_eq!(said(&stream), said(&FormerAsk::Stream { customer, ask }));
    }
}
