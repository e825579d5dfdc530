//! The stream of appends to one follower: how many are on their way at once, and what waits to ride with others.

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

/// More than one, so that an entry does not wait for the round trip and the sync of the one before it.
const APPENDS_IN_FLIGHT: usize = 16;

/// How long a commit of a shard waits for entries to ride with: as long as a busy one may rest between two of them. Nobody waits for
/// it at followers: an owner answers by its own state, and whoever is elected commits what it holds.
const COMMIT_PATIENCE: Duration = Duration::from_millis(40);

/// The directory's commits do not wait: they are rare, and some calls return when every node has applied theirs.
pub(crate) fn commit_patience(group: GroupId) -> Duration {
    if group == DIRECTORY_GROUP { Duration::ZERO } else { COMMIT_PATIENCE }
}

/// Requests, where those that only tell of a commit wait for entries to ride with.
///
/// One that gives way to a later request has no answer of its own: the later one's stands for both.
fn riding<C, S>(requests: S, patience: Duration) -> impl Stream<Item = AppendEntriesRequest<C>> + Send
where
    C: GatewayTypes,
    S: Stream<Item = AppendEntriesRequest<C>> + Send + Unpin,
{
    // openraft's stream must not be polled again once it has ended, which it may while a commit waits. The first request asks where
    // the follower stands, and waits for nothing.
    futures::stream::unfold((requests.fuse(), true), move |(mut requests, is_first)| async move {
        let mut request = requests.next().await?;
        if is_first || patience.is_zero() {
            return Some((request, (requests, false)));
        }
        let mut patience = std::pin::pin!(C::sleep(patience));
        while request.entries.is_empty() {
            match select(requests.next(), patience.as_mut()).await {
                Either::Left((Some(next), _)) => request = next,
                // openraft ends the stream where it begins another one, which tells the commit first.
                Either::Left((None, _)) | Either::Right(_) => break,
            }
        }
        Some((request, (requests, false)))
    })
}

/// The answers to requests, in order; `send` hands a request over at once and gives its answer later. A request that only tells
/// of a commit waits for entries for `patience`.
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
    // What comes after a failure or a conflict was sent on a wrong assumption: openraft starts over.
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

    /// What comes through of requests that are all there, each with its entries and its commit.
    async fn through(requests: Vec<Request>, patience: Duration) -> Vec<(usize, u64)> {
        // As openraft's: it panics when it is polled after its end.
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
        // The first goes at once, and the last when no other can come.
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
