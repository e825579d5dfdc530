//! All subscribers, copy-on-write: a snapshot is cheap, and a subscriber is copied if it changes meanwhile.

use std::collections::HashMap;
use std::sync::Arc;

use super::subscriber::{Device, Subscriber};
use crate::simulator::number::Number;

#[derive(Clone, Debug, Default)]
pub struct Subscribers {
    by_number: HashMap<Number, Arc<Subscriber>>,
}

impl Subscribers {
    pub fn get(&self, number: &Number) -> Option<&Subscriber> {
        self.by_number.get(number).map(|subscriber| &**subscriber)
    }

    pub fn get_mut(&mut self, number: &Number) -> Option<&mut Subscriber> {
        self.by_number.get_mut(number).map(Arc::make_mut)
    }

    pub fn device_mut(&mut self, number: Number, device: u32) -> Option<&mut Device> {
        self.get_mut(&number)?.device_mut(device)
    }

    /// The ids of a subscriber's linked devices.
    pub fn linked_devices(&self, number: Number) -> Vec<u32> {
        let linked = self.get(&number).into_iter().flat_map(Subscriber::linked);
        linked.map(|device| device.id).collect()
    }

    pub fn contains_key(&self, number: &Number) -> bool {
        self.by_number.contains_key(number)
    }

    /// The subscriber with a number; created if it does not exist.
    pub fn put(&mut self, number: Number) -> &mut Subscriber {
        Arc::make_mut(self.by_number.entry(number).or_insert_with(|| Arc::new(Subscriber::new(number))))
    }

    /// Adds a stored subscriber.
    pub fn insert(&mut self, subscriber: Subscriber) {
        self.by_number.insert(subscriber.number, Arc::new(subscriber));
    }

    pub fn remove(&mut self, number: &Number) {
        self.by_number.remove(number);
    }

    pub fn values(&self) -> impl Iterator<Item = &Subscriber> {
        self.by_number.values().map(|subscriber| &**subscriber)
    }

    pub fn len(&self) -> usize {
        self.by_number.len()
    }
}
