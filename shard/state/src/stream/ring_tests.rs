use machine::MemoryState;
use model::event::EventName;
use model::id::ChannelId;
use model::payload::{ChatType, ChatTypeFilter};
use proptest::prelude::*;

use super::*;

const CUSTOMER: CustomerId = CustomerId(uuid::Uuid::from_u128(1));
const OTHER: CustomerId = CustomerId(uuid::Uuid::from_u128(2));
const CHANNEL: ChannelId = ChannelId(uuid::Uuid::from_u128(3));
const MINUTE: i64 = 60_000;

fn event(customer: CustomerId, number: u64, at: i64) -> StreamedEvent {
    let mut random = [0; 10];
    random[..8].copy_from_slice(&number.to_be_bytes());
    StreamedEvent {
        customer,
        id: EventId::mint(Timestamp(at), random),
        name: if number.is_multiple_of(2) { EventName::MessageSent } else { EventName::MessageStatus },
        channel: CHANNEL,
        chat: ChatType::Direct,
        at: Timestamp(at),
        body: Bytes::from(format!("event {number}")),
    }
}

/// Appends events of the given times, one part each, as if from shard 1.
fn grow(state: &mut MemoryState, times: impl IntoIterator<Item = i64>) {
    for at in times {
        let after = gathered(state, 1);
        let reply = gather(state, 1, after, after + 1, Timestamp(at), vec![event(CUSTOMER, after + 1, at)]);
        assert_eq!(reply, Reply::Done);
    }
}

fn all(state: &MemoryState, after: u64) -> Vec<EventId> {
    part(state, CUSTOMER, after, usize::MAX, &Filter::default()).events.into_iter().map(|event| event.id).collect()
}

#[test]
fn a_part_is_gathered_once_and_in_order() {
    let mut state = MemoryState::new();
    let events: Vec<_> = (1..=3).map(|number| event(CUSTOMER, number, 0)).collect();
    let ids: Vec<_> = events.iter().map(|event| event.id.clone()).collect();
    assert_eq!(gather(&mut state, 1, 0, 30, Timestamp(0), events.clone()), Reply::Done);
    assert_eq!(gather(&mut state, 1, 0, 30, Timestamp(0), events.clone()), Reply::Unchanged);
    assert_eq!(gather(&mut state, 2, 0, 7, Timestamp(0), vec![event(OTHER, 9, 0)]), Reply::Done);
    assert_eq!(all(&state, 0), ids);
    assert_eq!(all(&state, 2), ids[2..]);
    assert_eq!((gathered(&state, 1), gathered(&state, 2)), (30, 7));
}

#[test]
fn a_part_of_a_relay_holds_no_more_than_one_log_entry_can() {
    let mut state = MemoryState::new();
    let sized =
        |place: u64, bytes: usize| StreamedEvent { body: Bytes::from(vec![b'x'; bytes]), ..event(CUSTOMER, place, 0) };
    for (place, bytes) in [(1, 300 << 10), (2, 200 << 10), (3, 100 << 10), (4, 900 << 10), (5, 10)] {
        relay(&mut state, 3, place, &sized(place, bytes));
    }
    let places = |after| relayed(&state, 3, after).into_iter().map(|(place, _)| place).collect::<Vec<_>>();
    assert_eq!((places(0), places(2), places(3), places(4)), (vec![1, 2], vec![3], vec![4], vec![5]));
}

#[test]
fn a_relay_is_read_in_order_and_released() {
    let mut state = MemoryState::new();
    for place in [5, 9, 70_000] {
        relay(&mut state, 3, place, &event(CUSTOMER, place, 0));
    }
    relay(&mut state, 4, 6, &event(OTHER, 6, 0));
    let places = |state: &MemoryState, after| relayed(state, 3, after).into_iter().map(|(place, _)| place).collect();
    let seen: Vec<u64> = places(&state, 0);
    assert_eq!(seen, [5, 9, 70_000]);
    assert_eq!(release(&mut state, 3, 9), Reply::Done);
    let seen: Vec<u64> = places(&state, 0);
    assert_eq!(seen, [70_000]);
    assert_eq!(relayed(&state, 4, 0).len(), 1);
}

#[test]
fn a_stream_goes_on_after_the_event_that_it_showed_last() {
    let mut state = MemoryState::new();
    grow(&mut state, 0..200);
    let ids = all(&state, 0);
    assert_eq!(start(&state, CUSTOMER, None), Start { after: 200, gap: None });
    for place in [0, 63, 64, 199] {
        assert_eq!(start(&state, CUSTOMER, Some(&ids[place])), Start { after: place as u64 + 1, gap: None });
    }
    let strange = EventId::mint(Timestamp(0), [9; 10]);
    let gap = Gap { oldest: Some(ids[0].clone()) };
    assert_eq!(start(&state, CUSTOMER, Some(&strange)), Start { after: 0, gap: Some(gap) });
    assert_eq!(start(&state, OTHER, Some(&strange)), Start { after: 0, gap: Some(Gap { oldest: None }) });
}

#[test]
fn what_is_older_than_ten_minutes_goes_but_for_the_youngest_of_it() {
    let mut state = MemoryState::new();
    grow(&mut state, [0, 1, 2, 3]);
    let last = all(&state, 0).pop().unwrap();
    grow(&mut state, [60 * MINUTE]);
    let left = all(&state, 0);
    assert_eq!(left.len(), 2);
    // A client that had seen everything before the silence misses nothing.
    assert_eq!(start(&state, CUSTOMER, Some(&last)), Start { after: 4, gap: None });
    grow(&mut state, (1..1000).map(|n| 60 * MINUTE + n));
    assert_eq!(RingExtent::read(&state, CUSTOMER), RingExtent { first: 4, next: 1005 });
    grow(&mut state, [80 * MINUTE]);
    assert_eq!(RingExtent::read(&state, CUSTOMER), RingExtent { first: 1004, next: 1006 });
}

#[test]
fn a_ring_holds_so_many_events_and_says_when_some_were_missed() {
    let mut state = MemoryState::new();
    let whole = RING_EVENTS + 50;
    let events: Vec<_> = (1..=whole).map(|number| event(CUSTOMER, number, 0)).collect();
    let early = events[10].id.clone();
    assert_eq!(gather(&mut state, 1, 0, whole, Timestamp(0), events), Reply::Done);
    assert_eq!(RingExtent::read(&state, CUSTOMER), RingExtent { first: 51, next: whole + 1 });
    assert!(start(&state, CUSTOMER, Some(&early)).gap.is_some());
    assert!(part(&state, CUSTOMER, 11, 1, &Filter::default()).missed);
    assert!(!part(&state, CUSTOMER, 50, 1, &Filter::default()).missed);
}

#[test]
fn a_part_is_filtered_and_goes_on_where_it_stopped() {
    let mut state = MemoryState::new();
    grow(&mut state, 0..20);
    let filter = Filter { names: vec![EventName::MessageSent], ..Filter::default() };
    let first = part(&state, CUSTOMER, 0, 3, &filter);
    assert_eq!((first.events.len(), first.after, first.caught_up), (3, 6, false));
    let rest = part(&state, CUSTOMER, first.after, 100, &filter);
    assert_eq!((rest.events.len(), rest.after, rest.caught_up), (7, 20, true));
    let groups = Filter { chat: ChatTypeFilter::GroupsOnly, ..Filter::default() };
    let none = part(&state, CUSTOMER, 0, 100, &groups);
    assert_eq!((none.events.len(), none.after, none.caught_up), (0, 20, true));
    let only_renewed = part(&state, CUSTOMER, 4, 0, &filter);
    assert_eq!((only_renewed.after, only_renewed.caught_up), (4, false));
}

#[test]
fn a_dropped_ring_is_empty_and_numbers_its_next_events_on() {
    let mut state = MemoryState::new();
    grow(&mut state, 0..600);
    assert_eq!(drop_ring(&mut state, CUSTOMER), Reply::More);
    assert_eq!(drop_ring(&mut state, CUSTOMER), Reply::Done);
    assert_eq!(all(&state, 0), []);
    grow(&mut state, [0]);
    assert_eq!(start(&state, CUSTOMER, None).after, 601);
}

#[test]
fn a_ticket_is_taken_once_and_not_after_its_time() {
    let mut state = MemoryState::new();
    let ticket = |end| Ticket { grant: Bytes::from_static(b"grant"), expires_at: Timestamp(end) };
    keep_ticket(&mut state, CUSTOMER, b"one", &ticket(60), Timestamp(0));
    keep_ticket(&mut state, CUSTOMER, b"two", &ticket(70), Timestamp(10));
    assert_eq!(use_ticket(&mut state, OTHER, b"one", Timestamp(20)), Reply::Unchanged);
    assert_eq!(use_ticket(&mut state, CUSTOMER, b"one", Timestamp(20)), Reply::Done);
    assert_eq!(use_ticket(&mut state, CUSTOMER, b"one", Timestamp(20)), Reply::Unchanged);
    assert_eq!(use_ticket(&mut state, CUSTOMER, b"two", Timestamp(70)), Reply::Unchanged);
    keep_ticket(&mut state, CUSTOMER, b"old", &ticket(60), Timestamp(0));
    keep_ticket(&mut state, CUSTOMER, b"new", &ticket(160), Timestamp(100));
    assert_eq!(state.scan_range(keys::tickets_of(CUSTOMER), 10).len(), 1);
}

/// A pseudo-random digest.
fn digest(number: u64) -> [u8; 8] {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)).to_be_bytes()
}

#[test]
fn tickets_that_nobody_uses_do_not_gather() {
    let mut state = MemoryState::new();
    let (life, every) = (60_000, 100);
    for number in 0..10_000 {
        let (digest, now) = (digest(number), Timestamp(number as i64 * every));
        for over in expired_tickets(&state, CUSTOMER, &digest, now) {
            use_ticket(&mut state, CUSTOMER, &over, now);
        }
        let ticket = Ticket { grant: Bytes::from_static(b"grant"), expires_at: Timestamp(now.0 + life) };
        keep_ticket(&mut state, CUSTOMER, &digest, &ticket, now);
    }
    let (kept, alive) = (state.scan_range(keys::tickets_of(CUSTOMER), usize::MAX).len(), (life / every) as usize);
    assert!((alive..alive + alive / 2).contains(&kept), "{kept}");
}

proptest! {
    /// However parts are split and repeated, a reader that follows the ring sees each event once and in order.
    #[test]
    fn a_reader_sees_every_event_once(cuts in prop::collection::vec((1_u64..40, any::<bool>(), 1_usize..60), 1..40)) {
        let mut state = MemoryState::new();
        let (mut seen, mut after, mut upto) = (Vec::new(), 0, 0);
        for (size, again, most) in cuts {
            let events: Vec<_> = (upto + 1..=upto + size).map(|number| event(CUSTOMER, number, 0)).collect();
            gather(&mut state, 1, upto, upto + size, Timestamp(0), events.clone());
            if again {
                prop_assert_eq!(gather(&mut state, 1, upto, upto + size, Timestamp(0), events), Reply::Unchanged);
            }
            upto += size;
            let pulled = part(&state, CUSTOMER, after, most, &Filter::default());
            seen.extend(pulled.events.into_iter().map(|event| event.id));
            after = pulled.after;
        }
        seen.extend(all(&state, after));
        let expected: Vec<_> = (1..=upto).map(|number| event(CUSTOMER, number, 0).id).collect();
        prop_assert_eq!(seen, expected);
    }
}
