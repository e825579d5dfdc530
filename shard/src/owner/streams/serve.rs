//! Answers to the streams of a customer at its home.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use model::id::CustomerId;
use model::time::Timestamp;
use raft::supervise;

use crate::command::{Command, Reply};
use crate::owner::Owner;
use crate::owner::committer::LeadershipLost;
use crate::stream::{Filter, Pulled, StreamRequest, StreamResponse, TICKET_LIFE, Ticket, ring};

/// Answers a request at the customer's home.
///
/// # Errors
/// [`LeadershipLost`] if the ownership ends meanwhile: ask the next home.
pub async fn answer(
    owner: &Arc<Owner>,
    customer: CustomerId,
    request: StreamRequest,
) -> Result<StreamResponse, LeadershipLost> {
    match request {
        StreamRequest::Open { stream, resume } => {
            let counted_from = owner.streams.places.counted_from();
            tokio::select! {
                () = owner.lost.cancelled() => return Err(LeadershipLost),
                () = tokio::time::sleep_until(counted_from.into()) => {}
            }
            if let Err(open) = owner.streams.places.take(customer, stream, Instant::now()) {
                return Ok(StreamResponse::Full { open });
            }
            let reader = owner.reader.clone();
            // The start may scan a whole ring; the calls of others must not wait for it.
            let started = supervise::on_thread(move || ring::start(&reader, customer, resume.as_ref())).await;
            Ok(StreamResponse::Opened(started.map_err(|_| LeadershipLost)?))
        }
        StreamRequest::Pull { stream, after, most, filter, wait } => {
            owner.streams.places.renew(customer, stream.clone(), Instant::now());
            let pulled = pull(owner, customer, after, most, &filter, wait).await?;
            Ok(StreamResponse::Pulled(pulled))
        }
        StreamRequest::Close { stream } => {
            owner.streams.places.free(customer, &stream);
            Ok(StreamResponse::Closed)
        }
        StreamRequest::KeepTicket { digest, ticket } => {
            let at = Timestamp::now();
            // Expires by this node's clock, which also ends it; the clock of the node that issues it may differ.
            let ticket = Ticket { expires_at: at.plus(TICKET_LIFE), ..ticket };
            let over = ring::expired_tickets(&owner.reader, customer, &digest, at);
            let mut commands = vec![Command::KeepTicket { customer, digest, ticket, at }];
            // Using an expired ticket deletes it, and gives it to nobody.
            commands.extend(over.into_iter().map(|digest| Command::UseTicket { customer, digest, at }));
            owner.committer.commit(commands).await?;
            Ok(StreamResponse::TicketKept)
        }
        StreamRequest::UseTicket { digest } => Ok(StreamResponse::Ticket(use_ticket(owner, customer, digest).await?)),
    }
}

async fn pull(
    owner: &Owner,
    customer: CustomerId,
    after: u64,
    most: usize,
    filter: &Filter,
    wait: Duration,
) -> Result<Pulled, LeadershipLost> {
    let until = Instant::now() + wait;
    let mut after = after;
    let mut notifier = owner.streams.grown.listen(customer);
    loop {
        let part = ring::part(&owner.reader, customer, after, most, filter);
        if !part.events.is_empty() || part.missed || most == 0 {
            return Ok(part);
        }
        after = part.after;
        if !part.caught_up {
            tokio::task::yield_now().await;
            continue;
        }
        tokio::select! {
            () = owner.lost.cancelled() => return Err(LeadershipLost),
            () = tokio::time::sleep_until(until.into()) => return Ok(part),
            // The notifier keeps the sender while somebody listens, so `changed` does not fail.
            _ = notifier.changed() => {}
        }
    }
}

/// Uses a ticket, which goes to whoever commits its use first.
async fn use_ticket(owner: &Owner, customer: CustomerId, digest: Bytes) -> Result<Option<Ticket>, LeadershipLost> {
    let Some(ticket) = ring::ticket(&owner.reader, customer, &digest) else { return Ok(None) };
    let take = Command::UseTicket { customer, digest, at: Timestamp::now() };
    let taken = owner.committer.commit_one(take).await?;
    Ok((taken == Reply::Done).then_some(ticket))
}
