use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use proptest::prelude::*;
use tokio::sync::Semaphore;

use super::*;

/// An in-memory store that records every batch, and accepts one for each permit.
pub struct Store {
    pub rows: Mutex<BTreeMap<String, Vec<u8>>>,
    pub batches: Mutex<Vec<Vec<AuthWrite>>>,
    pub permits: Semaphore,
    pub fails: AtomicUsize,
}

impl Store {
    pub fn new(permits: usize) -> Arc<Self> {
        let permits = Semaphore::new(permits);
        Arc::new(Self {
            rows: Mutex::default(),
            batches: Mutex::default(),
            permits,
            fails: AtomicUsize::new(usize::MAX),
        })
    }

    pub fn free() -> Arc<Self> {
        Self::new(Semaphore::MAX_PERMITS)
    }
}

#[async_trait]
impl AuthStore for Store {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, AuthError> {
        Ok(self.rows.lock().get(key).cloned())
    }

    fn keys(&self, prefix: &str, after: Option<&str>, limit: usize) -> Vec<String> {
        let rows = self.rows.lock();
        let from = rows.range(prefix.to_owned()..).map(|(name, _)| name.clone());
        let under = from.take_while(|name| name.starts_with(prefix));
        under.filter(|name| after.is_none_or(|after| name.as_str() > after)).take(limit).collect()
    }

    fn bytes(&self) -> u64 {
        self.rows.lock().iter().map(|(name, value)| (name.len() + value.len()) as u64).sum()
    }

    async fn commit(&self, batch: Vec<AuthWrite>) -> Result<(), AuthError> {
        self.permits.acquire().await.map_err(|_| AuthError::Fenced)?.forget();
        if self.batches.lock().len() >= self.fails.load(Ordering::Acquire) {
            return Err(AuthError::Unavailable("no quorum".into()));
        }
        let mut rows = self.rows.lock();
        for AuthWrite { key, value } in &batch {
            match value {
                Some(value) => rows.insert(key.clone(), value.clone()),
                None => rows.remove(key),
            };
        }
        self.batches.lock().push(batch);
        Ok(())
    }
}

fn log(store: &Arc<Store>) -> Arc<StateLog> {
    let log = StateLog::new(Arc::clone(store) as Arc<dyn AuthStore>);
    tokio::spawn(Arc::clone(&log).write());
    log
}

#[tokio::test]
async fn a_barrier_waits_for_what_the_wire_waits_for_and_for_nothing_lazy() {
    let store = Store::new(0);
    let log = log(&store);
    log.append(Class::Lazy, [Write::put("a", [1_u8])]).unwrap();
    log.barrier().await.unwrap();
    assert!(store.batches.lock().is_empty());
    log.append(Class::Wire, [Write::put("b", [2_u8])]).unwrap();
    let waits = tokio::time::timeout(Duration::from_millis(300), log.barrier()).await;
    assert!(waits.is_err(), "nothing is durable yet");
    store.permits.add_permits(1);
    log.barrier().await.unwrap();
    assert_eq!(store.rows.lock().len(), 2, "the lazy one rode along");
    log.barrier().await.unwrap();
}

#[tokio::test]
async fn what_is_lazy_is_stored_in_two_seconds_though_nobody_waits() {
    let store = Store::free();
    let log = log(&store);
    log.append(Class::Lazy, [Write::put("a", [1_u8])]).unwrap();
    let stored = async {
        while store.batches.lock().is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), stored).await.unwrap();
    assert!(log.get("a").unwrap().is_some());
}

#[tokio::test]
async fn what_came_and_went_leaves_nothing() {
    let store = Store::free();
    let log = log(&store);
    log.append(Class::Wire, [Write::put("q", [1_u8])]).unwrap();
    log.append(Class::Wire, [Write::delete("q")]).unwrap();
    log.flush().await.unwrap();
    assert!(store.batches.lock().is_empty());
    log.append(Class::Wire, [Write::put("q", [1_u8])]).unwrap();
    log.flush().await.unwrap();
    log.append(Class::Wire, [Write::delete("q")]).unwrap();
    log.flush().await.unwrap();
    assert!(store.rows.lock().is_empty());
}

#[tokio::test]
async fn a_run_is_never_split_unless_it_is_larger_than_a_batch() {
    let store = Store::new(0);
    let log = log(&store);
    let row = |n: usize| Write::put(format!("{n:04}"), vec![0_u8; 1_000]);
    // The first batch blocks the writer.
    log.append(Class::Wire, [Write::put("first", [1_u8])]).unwrap();
    let waiting = tokio::spawn({
        let log = Arc::clone(&log);
        async move { log.barrier().await }
    });
    tokio::task::yield_now().await;
    for run in 0..4 {
        log.append(Class::Wire, (0..100).map(|n| row(run * 100 + n))).unwrap();
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
    }
    store.permits.add_permits(100);
    waiting.await.unwrap().unwrap();
    log.flush().await.unwrap();
    for batch in &store.batches.lock()[1..] {
        assert_eq!(batch.len() % 100, 0, "whole runs");
        assert!(batch.len() <= 200, "of a size that the store takes");
    }
    log.append(Class::Wire, (0..400).map(row)).unwrap();
    log.flush().await.unwrap();
    let largest = store.batches.lock().iter().map(Vec::len).max();
    assert!(largest < Some(260), "{largest:?}");
}

#[tokio::test]
async fn a_commit_that_fails_ends_everything() {
    let store = Store::free();
    store.fails.store(0, Ordering::Release);
    let log = log(&store);
    log.append(Class::Wire, [Write::put("a", [1_u8])]).unwrap();
    assert!(matches!(log.barrier().await, Err(AuthError::Unavailable(why)) if why == "no quorum"));
    assert!(log.append(Class::Lazy, [Write::put("b", [1_u8])]).is_err());
    assert!(log.get("a").is_err());
    assert!(log.barrier().await.is_err());
}

#[tokio::test]
async fn a_store_that_takes_nothing_ends_the_session_at_all_that_it_would_hold() {
    let store = Store::new(0);
    let log = log(&store);
    let piece = || [Write::put("k", vec![0_u8; (1 << 20) - 1])];
    for _ in 0..32 {
        log.append(Class::Lazy, piece()).unwrap();
    }
    assert!(log.append(Class::Lazy, piece()).is_err());
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8, u8),
    Delete(u8),
    Yield,
    Barrier,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..6u8, any::<u8>()).prop_map(|(key, value)| Step::Put(key, value)),
        2 => (0..6u8).prop_map(Step::Delete),
        2 => Just(Step::Yield),
        1 => Just(Step::Barrier),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    /// Whenever the session dies, the stored state is one that the library had written at an earlier moment.
    #[test]
    fn what_is_stored_is_always_a_prefix_of_what_was_written(steps in steps(), dies in 0..12usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store = Store::free();
            store.fails.store(dies, Ordering::Release);
            let log = log(&store);
            let mut model = BTreeMap::new();
            let mut moments = vec![model.clone()];
            for step in steps {
                let written = match step {
                    Step::Put(key, value) => {
                        model.insert(key.to_string(), vec![value]);
                        log.append(Class::Wire, [Write::put(key.to_string(), [value])])
                    }
                    Step::Delete(key) => {
                        model.remove(&key.to_string());
                        log.append(Class::Lazy, [Write::delete(key.to_string())])
                    }
                    Step::Yield => {
                        tokio::task::yield_now().await;
                        Ok(())
                    }
                    Step::Barrier => log.barrier().await,
                };
                if written.is_err() {
                    break;
                }
                moments.push(model.clone());
                for (key, value) in &model {
                    // Reads return the last write, stored or not.
                    let read = log.get(key);
                    assert!(read.is_err() || read.unwrap().as_ref() == Some(value));
                }
            }
            let stored = store.rows.lock().clone();
            assert!(moments.contains(&stored), "{stored:?} was never so: {moments:?}");
        });
    }
}
