//! Encodes commands for the log, and splits them into submissions of bounded size.

use model::msgpack;
use raft::group::MAX_COMMAND;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::settling::Settled;
use crate::command::{Command, NewEvent, Reply};

/// Bytes of one caller's commands that may be in flight at once. Its further commands wait for their commit, so that
/// other callers of the shard do not wait for all of them.
pub const PORTION: usize = 128 << 10;

/// Initial capacity, enough for most submissions: the commands of a send take some hundred bytes.
const USUAL_SUBMISSION: usize = 1 << 10;

/// Bytes of an entry besides commands: the batch's other fields, and the number of commands.
const BATCH_HEAD: usize = 256;

/// Maximum size of one command in bytes; a larger one is refused.
pub const LARGEST_COMMAND: usize = MAX_COMMAND - BATCH_HEAD;

/// A caller that waits for its part of an entry's replies.
pub struct Caller {
    pub commands: usize,
    pub reply: oneshot::Sender<Vec<Reply>>,
    /// Verdicts that are in the store once these commands, the caller's last ones, are committed.
    pub settled: Option<Settled>,
}

/// Commands of one caller that go into the same entry.
pub struct Submission {
    /// The encoded commands, in the order of the entry.
    pub encoded: Vec<u8>,
    pub caller: Caller,
    /// This submission's share of the bytes that may wait; released when it goes into an entry.
    pub room: Option<OwnedSemaphorePermit>,
    /// The caller has more commands, which wait for the commit of these.
    pub has_more: bool,
}

/// Encodes a command. The commands of every send are written without field names, which every release can read as well:
/// fields are only ever added at the end, with a default.
fn encode(bytes: &mut Vec<u8>, command: &Command) {
    let written = match command {
        Command::AcceptSend { media: None, .. }
        | Command::Send { .. }
        | Command::Sent { .. }
        | Command::Settle { .. } => msgpack::append(bytes, command),
        _ => msgpack::append_named(bytes, command),
    };
    written.expect("a command of plain fields is always written");
}

/// A part of what one caller commits at once.
pub enum Part {
    Submission(Submission, oneshot::Receiver<Vec<Reply>>),
    /// A command that is too large for the log.
    TooLarge,
}

/// Splits commands into submissions of bounded size; usually there is one.
pub fn submissions(commands: &[Command]) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut encoded = Vec::with_capacity(USUAL_SUBMISSION);
    let mut first = 0;
    let close = |encoded: Vec<u8>, commands: &[Command]| {
        let (reply, replied) = oneshot::channel();
        let caller = Caller { commands: commands.len(), reply, settled: None };
        Part::Submission(Submission { encoded, caller, room: None, has_more: false }, replied)
    };
    for (place, command) in commands.iter().enumerate() {
        let begin = encoded.len();
        encode(&mut encoded, command);
        if encoded.len() <= PORTION {
            continue;
        }
        let own = encoded.split_off(begin);
        if place > first {
            parts.push(close(std::mem::take(&mut encoded), &commands[first..place]));
        }
        first = place;
        if own.len() > LARGEST_COMMAND {
            let bytes = own.len();
            tracing::error!(bytes, command = command.name(), "a command is too large for the log, and is refused");
            metrics::counter!("gateway_commands_refused_total").increment(1);
            parts.push(Part::TooLarge);
            first = place + 1;
        } else if own.len() > PORTION {
            parts.push(close(own, &commands[place..=place]));
            first = place + 1;
        } else {
            encoded = own;
        }
    }
    if first < commands.len() {
        parts.push(close(encoded, &commands[first..]));
    }
    parts
}

/// Whether an event may lack endpoints because the copy of the directory was outdated; it must not be committed then.
pub fn is_outdated(commands: &[Command]) -> bool {
    commands.iter().flat_map(events_of).any(|event| event.outdated)
}

/// The events that a command carries.
fn events_of(command: &Command) -> &[NewEvent] {
    match command {
        Command::Settle { events, .. } | Command::ReceiveOwn { events, .. } | Command::Project { events, .. } => events,
        Command::Move(step) => &step.events,
        Command::Receipt { event, .. }
        | Command::Receive { event, .. }
        | Command::Recover { event, .. }
        | Command::LearnLid { event, .. }
        | Command::Emit(event) => std::slice::from_ref(event),
        Command::AcceptSend { .. }
        | Command::Send { .. }
        | Command::Sent { .. }
        | Command::Auth { .. }
        | Command::Reseal { .. }
        | Command::ChangeSettings { .. }
        | Command::Delivery(_)
        | Command::Expire(_)
        | Command::DeleteChannel { .. }
        | Command::Media(_)
        | Command::Release { .. }
        | Command::Gather { .. }
        | Command::DropRing { .. }
        | Command::KeepTicket { .. }
        | Command::UseTicket { .. } => &[],
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
pub mod tests {
    use bytes::Bytes;
    use model::event::{EventId, EventName};
    use model::id::{ChannelId, CustomerId, MessageId, RowId};
    use model::payload::ChatType;
    use model::time::Timestamp;
    use network::driver::AuthWrite;

    use super::*;
    use crate::command::{NewMessage, ProjectedWrite, Verdict};
    use crate::projection::Kind;
    use crate::stream::Streamed;

    /// A command of `bytes` encoded bytes: exactly that many above 64 KiB, and a few more below.
    pub fn of_size(bytes: usize) -> Command {
        let with = |length: usize| Command::Auth {
            channel: ChannelId::random(),
            customer: CustomerId::new(),
            writes: vec![AuthWrite { key: "k".repeat(length), value: None }],
        };
        let size = |command: &Command| msgpack::to_vec_named(command).unwrap().len();
        // The length of a string takes the same number of bytes from 64 KiB on.
        let base = size(&with(1 << 16)) - (1 << 16);
        let command = if bytes > (1 << 16) + base { with(bytes - base) } else { with(bytes) };
        assert!(bytes <= 1 << 16 || size(&command) == bytes);
        command
    }

    fn submission(part: Part) -> Option<Submission> {
        match part {
            Part::Submission(submission, _) => Some(submission),
            Part::TooLarge => None,
        }
    }

    pub fn submitted(commands: &[Command]) -> Vec<Submission> {
        submissions(commands).into_iter().filter_map(submission).collect()
    }

    /// The number of commands in each part; 0 for a refused one.
    fn parts(sizes: &[usize]) -> Vec<usize> {
        let commands: Vec<Command> = sizes.iter().map(|size| of_size(*size)).collect();
        let count = |part| submission(part).map_or(0, |part| part.caller.commands);
        submissions(&commands).into_iter().map(count).collect()
    }

    #[test]
    fn commands_are_cut_into_submissions_that_an_entry_can_hold() {
        const MOST: usize = PORTION * 3 / 4;
        assert_eq!(parts(&[]), [0; 0]);
        assert_eq!(parts(&[10, 10, 10]), [3]);
        assert_eq!(parts(&[MOST, 10, MOST]), [2, 1]);
        assert_eq!(parts(&[MOST, MOST, 10]), [1, 2]);
        assert_eq!(parts(&[PORTION, 10]), [1, 1]);
        assert_eq!(parts(&[10, PORTION + 1, 10, 10]), [1, 1, 2]);
        assert_eq!(parts(&[10, LARGEST_COMMAND, 10]), [1, 1, 1]);
        assert_eq!(parts(&[10, LARGEST_COMMAND + 1, 10]), [1, 0, 1]);
        assert_eq!(parts(&[LARGEST_COMMAND + 1]), [0]);
    }

    #[test]
    fn the_commands_of_a_send_are_read_as_they_were_written_with_and_without_names() {
        let Command::Emit(event) = emit(false) else { panic!() };
        let streamed = Some(Streamed { home: 3, chat: ChatType::Direct });
        let settle = |events, projected| Command::Settle {
            channel: ChannelId::random(),
            message: MessageId::mint([1; 18]),
            verdict: Verdict::Accepted { recipients: Some(3) },
            at: Timestamp(7),
            events,
            projected,
        };
        let write =
            ProjectedWrite { kind: Kind::Settings, id: "one".to_owned(), row: Some(Bytes::from_static(b"row")) };
        let accept = |projected| Command::AcceptSend {
            customer: CustomerId::random(),
            message: NewMessage {
                channel: ChannelId::random(),
                message_id: MessageId::mint([2; 18]),
                id: RowId::new(),
                occurred_at: Timestamp(5),
                row: Bytes::from_static(b"encoded"),
                chat: None,
            },
            outbox: Bytes::from_static(b"entry"),
            media: None,
            projected,
            room: None,
        };
        let commands = [
            settle(vec![event.clone(), NewEvent { streamed, ..event }], Vec::new()),
            settle(Vec::new(), vec![write.clone()]),
            accept(Vec::new()),
            accept(vec![write]),
            Command::Sent {
                customer: CustomerId::random(),
                channel: ChannelId::random(),
                message: MessageId::mint([3; 18]),
                at: Timestamp(7),
                heard_at: Timestamp(9),
            },
        ];
        for command in commands {
            let named = msgpack::to_vec_named(&command).unwrap();
            let mut bytes = Vec::new();
            encode(&mut bytes, &command);
            assert!(bytes.len() < named.len());
            for written in [&bytes, &named] {
                let read: Command = msgpack::from_slice(written).unwrap();
                assert_eq!(format!("{read:?}"), format!("{command:?}"));
            }
        }
    }

    fn emit(outdated: bool) -> Command {
        Command::Emit(NewEvent {
            id: EventId::mint(Timestamp(1), [0; 10]),
            name: EventName::MessageReceived,
            channel: ChannelId::random(),
            customer: CustomerId::random(),
            message: None,
            correlation_id: None,
            chat: None,
            body: Bytes::new(),
            at: Timestamp(1),
            deliveries: Vec::new(),
            streamed: None,
            outdated,
        })
    }

    #[test]
    fn no_event_is_committed_whose_endpoints_were_looked_up_in_an_old_copy_of_the_directory() {
        assert!(!is_outdated(&[emit(false), emit(false)]));
        assert!(is_outdated(&[emit(false), emit(true)]));
    }

    #[test]
    fn whether_an_event_is_outdated_is_nobodys_business_but_the_owners() {
        let stored = msgpack::to_vec_named(&emit(true)).expect("plain fields");
        assert_eq!(stored, {
            let Command::Emit(event) = msgpack::from_slice(&stored).expect("what was written") else { panic!() };
            assert!(!event.outdated);
            msgpack::to_vec_named(&Command::Emit(event)).expect("plain fields")
        });
    }
}
