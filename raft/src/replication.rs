//! Stream of appends to one follower: limits how many are in flight, and lets commit positions travel with entries.

use std::future::Future;
use std::time::Duration;

use futures::future::{Either, select};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use openraft::entry::RaftEntry;
use openraft::error::RPCError;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, StreamAppendResult};
use openraft::type_config::TypeConfigExt;

use crate::machine::{DIRECTORY_GROUP, GroupId};
use crate::types::GatewayTypes;

/// More than one, so that an entry does not wait for the previous one's round trip and sync.
const APPENDS_IN_FLIGHT: usize = 16;

/// How long a shard's commit position waits to travel with entries: as long as a busy shard may pause between them. No
/// follower needs it sooner: an owner answers from its own state, and a new leader commits what it holds.
const COMMIT_PATIENCE: Duration = Duration::from_millis(40);

/// Zero for the directory: its commits are rare, and some calls return only when every node has applied them.
pub(crate) fn commit_patience(group: GroupId) -> Duration {
    if group == DIRECTORY_GROUP { Duration::ZERO } else { COMMIT_PATIENCE }
}

/// Holds back requests that carry only a commit position, so that it travels with the next entries.
///
/// A request that is replaced by a later one gets no answer of its own: the later one's answer covers both.
fn riding<C, S>(requests: S, patience: Duration) -> impl Stream<Item = AppendEntriesRequest<C>> + Send
where
    C: GatewayTypes,
    S: Stream<Item = AppendEntriesRequest<C>> + Send + Unpin,
{
    // `fuse`: openraft's stream must not be polled after its end, which may come while a commit position waits. The
    // first request asks for the follower's position, and is never held back.
    futures::stream::unfold((requests.fuse(), true), move |(mut requests, is_first)| async move {
        let mut request = requests.next().await?;
        if is_first || patience.is_zero() {
            return Some((request, (requests, false)));
        }
        let mut patience = std::pin::pin!(C::sleep(patience));
        while request.entries.is_empty() {
            match select(requests.next(), patience.as_mut()).await {
                Either::Left((Some(next), _)) => request = next,
                // openraft ends the stream only to start another one, which sends the commit position first.
                Either::Left((None, _)) | Either::Right(_) => break,
            }
        }
        Some((request, (requests, false)))
    })
}

/// Answers to the requests, in order. `send` sends a request at once and resolves to its answer. A request that carries
/// only a commit position waits up to `patience` for entries.
pub(crate) fn pipelined<'s, C, S, A>(
    requests: S,
    patience: Duration,
    send: impl Fn(AppendEntriesRequest<C>) -> A + Send + 's,
) -> BoxStream<'s, Result<StreamAppendResult<C>, RPCError<C>>>
where
    C: GatewayTypes,
    S: Stream<Item = AppendEntriesRequest<C>> + Send + Unpin + 's,
    A: Future<Output = Result<AppendEntriesResponse<C>, RPCError<C>>> + Send + 's,
{
    let answers = riding(requests, patience).map(move |request| {
        let previous = request.prev_log_id;
        let last = request.entries.last().map(|entry| entry.log_id()).or(previous);
        let answer = send(request);
        async move { Ok(answer.await?.into_stream_result(previous, last)) }
    });
    let answers = Box::pin(answers.buffered(APPENDS_IN_FLIGHT));
    // Requests after a failure or a conflict were based on a wrong assumption; openraft starts over.
    let answers = futures::stream::unfold(Some(answers), |answers| async move {
        let mut answers = answers?;
        let answer = answers.next().await?;
        let go_on = matches!(answer, Ok(Ok(_)));
        Some((answer, go_on.then_some(answers)))
    });
    Box::pin(answers)
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use openraft::EntryPayload;

    use super::*;
    use crate::types::{TypeConfig, Vote, log_id};

    type Request = AppendEntriesRequest<TypeConfig>;

    fn request(prev: u64, entries: u64, commit: u64) -> Request {
        let entry = |index| openraft::Entry { log_id: log_id(1, index), payload: EntryPayload::Blank };
        AppendEntriesRequest {
            vote: Vote::new_committed(1, 1),
            prev_log_id: Some(log_id(1, prev)),
            entries: (prev + 1..=prev + entries).map(entry).collect(),
            leader_commit: Some(log_id(1, commit)),
        }
    }

    fn commit_of(request: &Request) -> u64 {
        request.leader_commit.as_ref().map_or(0, |id| id.index)
    }

    /// Sends all requests at once; returns the number of entries and the commit index of those that come through.
    async fn through(requests: Vec<Request>, patience: Duration) -> Vec<(usize, u64)> {
        // Like openraft's stream, this one panics when it is polled after its end.
        let requests = stream::unfold(requests.into_iter(), async |mut left| Some((left.next()?, left)));
        let through = riding::<TypeConfig, _>(Box::pin(requests), patience);
        through.map(|each| (each.entries.len(), commit_of(&each))).collect().await
    }

    const LONG: Duration = Duration::from_secs(600);

    #[tokio::test]
    async fn a_commit_rides_with_the_next_entries() {
        let requests = vec![
            request(4, 0, 3),
            request(4, 2, 4),
            request(6, 0, 5),
            request(6, 0, 6),
            request(6, 1, 6),
            request(7, 0, 7),
        ];
        // The first request is sent at once, the last one when no other can follow.
        assert_eq!(through(requests, LONG).await, [(0, 3), (2, 4), (1, 6), (0, 7)]);
    }

    #[tokio::test]
    async fn a_commit_that_no_entries_follow_goes_alone() {
        let requests = stream::iter([request(4, 2, 4), request(6, 0, 5), request(6, 0, 6)]).chain(stream::pending());
        let mut through = std::pin::pin!(riding::<TypeConfig, _>(requests, Duration::from_millis(1)));
        let commits = [through.next().await, through.next().await].map(|each| each.as_ref().map(commit_of));
        assert_eq!(commits, [Some(4), Some(6)]);
    }

    #[tokio::test]
    async fn without_patience_each_commit_is_told_at_once() {
        let requests = vec![request(4, 0, 3), request(4, 0, 4), request(4, 1, 4)];
        assert_eq!(through(requests, Duration::ZERO).await, [(0, 3), (0, 4), (1, 4)]);
    }
}
