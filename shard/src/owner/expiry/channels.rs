//! Expiry of rows that would otherwise stay forever: those of deleted channels, and the phone addresses of LIDs. Each
//! has a maximum age and a maximum number. From the third format on.

use std::sync::Arc;

use model::address::Address;
use model::format::Format;
use model::id::ChannelId;
use model::time::Timestamp;
use raft::machine::{View, just_after, scan_all};

use super::{CHANNELS, STEP, commit, read};
use crate::keys;
use crate::owner::Owner;
use crate::owner::committer::LeadershipLost;
use crate::records::{ChannelRow, LidRow, decode};
use crate::retention::Expire;

fn is_known(owner: &Owner) -> bool {
    owner.node.directory.format() >= Format::THIRD
}

/// Expires the rows of wiped channels. They are kept so that a late command finds its channel gone; commands are late
/// by seconds at most, and the directory gives callers the same answer.
pub async fn expire_deleted(owner: &Arc<Owner>) -> Result<(), LeadershipLost> {
    if !is_known(owner) || !owner.node.directory.is_fresh() {
        return Ok(());
    }
    let retention = &owner.node.retention;
    let before = Timestamp::now().minus(retention.deleted_channels);
    // By time of deletion. A channel that the directory has removed went with its account long ago.
    let mut wiped: Vec<(Timestamp, ChannelId)> = Vec::new();
    let (mut next, end) = keys::channels();
    loop {
        let (from, to) = (next.clone(), end.clone());
        let rows = read(owner, move |view| view.scan(&from, &to, CHANNELS)).await?;
        let Some((last, _)) = rows.last() else { break };
        next = just_after(last);
        let gone = rows.iter().map(|(_, row)| decode::<ChannelRow>(row)).filter(|row| row.deleted && row.wiped);
        let ids: Vec<ChannelId> = gone.map(|row| row.id).collect();
        wiped.extend(owner.node.directory.read(|state| {
            let at = |id: &ChannelId| match state.channels.get(id) {
                None => Some(Timestamp::default()),
                Some(record) => record.deleted_at,
            };
            ids.iter().filter_map(|id| Some((at(id)?, *id))).collect::<Vec<_>>()
        }));
    }
    for channels in over(wiped, before, retention.most_deleted_channels).chunks(STEP) {
        commit(owner, Expire::Channels { channels: channels.to_vec() }).await?;
    }
    Ok(())
}

/// Expires a channel's LIDs. The network discloses the LID of an author again; until then, a send to an expired LID is
/// a send to an unknown recipient.
pub async fn expire_lids(owner: &Arc<Owner>, channel: ChannelId) -> Result<(), LeadershipLost> {
    if !is_known(owner) {
        return Ok(());
    }
    let retention = owner.node.retention.clone();
    let before = Timestamp::now().minus(retention.lids);
    let lids = read(owner, move |view| over(learned(view, channel), before, retention.most_lids)).await?;
    for lids in lids.chunks(STEP) {
        commit(owner, Expire::Lids { channel, lids: lids.to_vec() }).await?;
    }
    Ok(())
}

/// The LIDs of a channel whose phone address is known, and when each was first seen.
fn learned(view: &dyn View, channel: ChannelId) -> Vec<(Timestamp, Address)> {
    let lids = scan_all(view, keys::lids(channel), STEP);
    lids.filter_map(|(key, row)| Some((decode::<LidRow>(&row).first_seen_at, Address::lid(keys::lid_at_end(&key)?))))
        .collect()
}

/// Items from before a time, and the oldest ones beyond `most`.
fn over<T>(mut all: Vec<(Timestamp, T)>, before: Timestamp, most: usize) -> Vec<T> {
    all.sort_unstable_by_key(|(at, _)| *at);
    let old = all.iter().take_while(|(at, _)| *at < before).count();
    let excess = all.len().saturating_sub(most);
    all.truncate(old.max(excess));
    all.into_iter().map(|(_, what)| what).collect()
}

#[cfg(test)]
mod tests {
    use raft::machine::{MemoryState, State};

    use super::*;
    use crate::records::encode;

    #[test]
    fn what_is_too_old_goes_and_the_oldest_of_too_many() {
        let all = |ats: &[i64]| ats.iter().map(|at| (Timestamp(*at), *at)).collect::<Vec<_>>();
        assert_eq!(over(all(&[30, 10, 20]), Timestamp(20), 3), [10]);
        assert_eq!(over(all(&[30, 10, 20]), Timestamp(21), 3), [10, 20]);
        assert_eq!(over(all(&[30, 10, 20]), Timestamp(0), 3), [0_i64; 0]);
        assert_eq!(over(all(&[30, 10, 20]), Timestamp(0), 2), [10]);
        assert_eq!(over(all(&[30, 10, 20]), Timestamp(0), 0), [10, 20, 30]);
    }

    #[test]
    fn all_that_a_channel_knows_of_lids_is_looked_at() {
        let (mut state, channel) = (MemoryState::new(), ChannelId::random());
        let phone = Address::parse("1555@s.example").expect("an address");
        for n in 0..=STEP {
            let row = LidRow { phone: phone.clone(), first_seen_at: Timestamp(n as i64) };
            state.put(&keys::lid(channel, &n.to_string()), &encode(&row));
            state.put(&keys::lid(ChannelId::random(), &n.to_string()), &encode(&row));
        }
        assert_eq!(learned(&state, channel).len(), STEP + 1);
        assert_eq!(over(learned(&state, channel), Timestamp(1), STEP + 1), [Address::lid("0")]);
    }
}
