//! The rows of one channel's projection as an area reads and writes them: typed, and combining the stored rows with the
//! uncommitted writes of the same batch.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use machine::View;
use model::error::CallError;
use model::id::ChannelId;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Kind;
use crate::keys;
use crate::records::{ProjectedWrite, decode, encode};

/// A type of which the projection stores many values, each with an id.
pub trait Entity: Serialize + DeserializeOwned {
    const KIND: Kind;

    fn id(&self) -> String;
}

/// Implements [`Entity`] for a type: its kind, and how a row's id is computed.
macro_rules! entity {
    ($type:ty, $kind:ident, |$row:ident| $id:expr) => {
        impl $crate::projection::Entity for $type {
            const KIND: $crate::projection::Kind = $crate::projection::Kind::$kind;

            fn id(&self) -> String {
                let $row = self;
                $id
            }
        }
    };
}

pub(crate) use entity;

/// Rows that the current batch has written and not committed yet.
#[derive(Debug, Default)]
pub struct Projected(BTreeMap<(Kind, String), Option<Bytes>>);

/// The rows of one channel.
pub struct Rows<'a> {
    stored: &'a dyn View,
    channel: ChannelId,
    turn: &'a mut Projected,
    writes: Vec<ProjectedWrite>,
}

impl<'a> Rows<'a> {
    pub fn new(stored: &'a dyn View, channel: ChannelId, turn: &'a mut Projected) -> Self {
        Self { stored, channel, turn, writes: Vec::new() }
    }

    pub fn get<E: Entity>(&self, id: &str) -> Option<E> {
        match self.turn.0.get(&(E::KIND, id.to_owned())) {
            Some(row) => row.as_ref().map(|row| decode(row)),
            None => self.stored.get(&keys::projected(self.channel, E::KIND, id)).map(|row| decode(&row)),
        }
    }

    /// An entity that has to exist.
    ///
    /// # Errors
    /// `not_found`, with the name of the resource.
    pub fn find<E: Entity>(&self, resource: &str, id: &str) -> Result<E, CallError> {
        self.get(id).ok_or_else(|| CallError::not_found(resource, id))
    }

    pub fn has<E: Entity>(&self, id: &str) -> bool {
        self.get::<E>(id).is_some()
    }

    /// All entities of a kind, by id.
    pub fn all<E: Entity>(&self) -> Vec<E> {
        self.under("", usize::MAX)
    }

    /// The stored entities in a range of keys, overlaid with the batch's writes of the ids that belong to it.
    fn between<E: Entity>(&self, range: keys::Range, limit: usize, belongs: impl Fn(&str) -> bool) -> Vec<E> {
        let stored = self.stored.scan_range(range, limit).into_iter();
        let mut rows: BTreeMap<Vec<u8>, Option<Bytes>> =
            stored.map(|(key, row)| (key, Some(Bytes::from(row)))).collect();
        for ((kind, id), row) in self.turn.0.iter().filter(|((kind, id), _)| *kind == E::KIND && belongs(id)) {
            rows.insert(keys::projected(self.channel, *kind, id), row.clone());
        }
        rows.into_values().flatten().map(|row| decode(&row)).collect()
    }

    /// Entities whose ids begin with a prefix; reads at most `limit` stored ones.
    pub fn under<E: Entity>(&self, prefix: &str, limit: usize) -> Vec<E> {
        let range = keys::projected_under(self.channel, E::KIND, prefix, None);
        self.between(range, limit, |id| id.starts_with(prefix))
    }

    /// Entities after an id; reads at most `limit` stored ones.
    pub fn behind<E: Entity>(&self, after: &str, limit: usize) -> Vec<E> {
        let range = keys::projected_after(self.channel, E::KIND, Some(after));
        self.between(range, limit, |id| id > after)
    }

    /// Writes an entity, unless it equals the stored one.
    pub fn put<E: Entity + PartialEq>(&mut self, entity: &E) {
        let id = entity.id();
        if self.get::<E>(&id).as_ref() != Some(entity) {
            self.write(E::KIND, id, Some(Bytes::from(encode(entity))));
        }
    }

    /// Deletes an entity, if it exists.
    pub fn remove<E: Entity>(&mut self, id: &str) {
        if self.has::<E>(id) {
            self.write(E::KIND, id.to_owned(), None);
        }
    }

    /// Makes these the only entities of their kind.
    pub fn replace_all<E: Entity + PartialEq>(&mut self, entities: &[E]) {
        let kept: BTreeSet<String> = entities.iter().map(Entity::id).collect();
        for gone in self.all::<E>().iter().map(Entity::id).filter(|id| !kept.contains(id)) {
            self.remove::<E>(&gone);
        }
        entities.iter().for_each(|entity| self.put(entity));
    }

    fn write(&mut self, kind: Kind, id: String, row: Option<Bytes>) {
        self.turn.0.insert((kind, id.clone()), row.clone());
        self.writes.push(ProjectedWrite { kind, id, row });
    }

    /// The writes to commit.
    pub fn into_writes(self) -> Vec<ProjectedWrite> {
        self.writes
    }
}

#[cfg(test)]
mod tests {
    use machine::{MemoryState, State};
    use proptest::prelude::*;

    use super::*;
    use crate::projection::OrderPlace;

    #[derive(Clone, Debug)]
    enum Step {
        Put(String, String),
        Remove(String),
        ReplaceAll(BTreeMap<String, String>),
        /// The batch is committed, and another begins.
        Commit,
    }

    fn step() -> impl Strategy<Value = Step> {
        let (id, row) = ("[ab]{1,2}", "[xy]");
        prop_oneof![
            (id, row).prop_map(|(id, row)| Step::Put(id, row)),
            id.prop_map(Step::Remove),
            proptest::collection::btree_map(id, row, 0..3).prop_map(Step::ReplaceAll),
            Just(Step::Commit),
        ]
    }

    fn place((order, row): (&String, &String)) -> OrderPlace {
        OrderPlace { order: order.clone(), row: row.clone() }
    }

    proptest! {
        #[test]
        fn a_turn_sees_what_is_stored_under_what_it_wrote(steps in proptest::collection::vec(step(), 0..30)) {
            let (mut stored, channel) = (MemoryState::new(), ChannelId::random());
            let mut turn = Projected::default();
            let mut expected: BTreeMap<String, String> = BTreeMap::new();
            let mut uncommitted = Vec::new();
            for step in steps {
                let mut rows = Rows::new(&stored, channel, &mut turn);
                match step.clone() {
                    Step::Put(order, row) => {
                        rows.put(&OrderPlace { order: order.clone(), row: row.clone() });
                        expected.insert(order, row);
                    }
                    Step::Remove(order) => {
                        rows.remove::<OrderPlace>(&order);
                        expected.remove(&order);
                    }
                    Step::ReplaceAll(all) => {
                        rows.replace_all(&all.iter().map(place).collect::<Vec<_>>());
                        expected = all;
                    }
                    Step::Commit => {}
                }
                let all: Vec<OrderPlace> = expected.iter().map(place).collect();
                prop_assert_eq!(rows.all::<OrderPlace>(), all.clone());
                let under: Vec<OrderPlace> = all.iter().filter(|place| place.order.starts_with('a')).cloned().collect();
                prop_assert_eq!(rows.under::<OrderPlace>("a", usize::MAX), under);
                for order in ["a", "b", "ab"] {
                    prop_assert_eq!(rows.get::<OrderPlace>(order).map(|place| place.row), expected.get(order).cloned());
                }
                // An entity that equals the stored one is not written.
                let written = rows.writes.len();
                all.iter().for_each(|place| rows.put(place));
                prop_assert_eq!(rows.writes.len(), written);
                uncommitted.extend(rows.into_writes());
                if matches!(step, Step::Commit) {
                    for ProjectedWrite { kind, id, row } in uncommitted.drain(..) {
                        match row {
                            Some(row) => stored.put(&keys::projected(channel, kind, &id), &row),
                            None => stored.delete(&keys::projected(channel, kind, &id)),
                        }
                    }
                    turn = Projected::default();
                }
            }
        }
    }
}
