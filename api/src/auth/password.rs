//! Hashes and verifies passwords with argon2id, a few at a time, on threads that answer no requests.
//!
//! A hash takes some 20 MiB and tens of milliseconds by design. So logins queue for it, instead of taking memory and
//! CPU from everything else, and no address may fill the queue.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use argon2::password_hash::phc::PasswordHash as Phc;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Argon2, Params};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use model::error::CallError;
use raft::directory::users::PasswordHash;
use raft::supervise;
use shard::shares::Shares;
use tokio::sync::Semaphore;

use crate::failure;
use crate::ip_bucket::network_of;

/// Hashes that are computed concurrently.
const PARALLEL: usize = 2;

/// The most logins that may wait; further ones are told to retry later.
const QUEUE: usize = 64;

/// The most waiting logins of one client address.
const QUEUE_FROM_ADDRESS: usize = 32;

/// How long a login waits at most.
const PATIENCE: Duration = Duration::from_secs(5);

pub struct Passwords {
    running: Arc<Semaphore>,
    waiting: Shares<IpAddr>,
    /// A hash of no password. Unknown e-mail addresses are checked against it, to take as long as known ones.
    nobody: PasswordHash,
}

impl Passwords {
    pub fn new() -> Self {
        Self {
            running: Arc::new(Semaphore::new(PARALLEL)),
            waiting: Shares::new(QUEUE, QUEUE_FROM_ADDRESS),
            nobody: nobody(),
        }
    }

    /// Hashes a new password that was sent from a client address.
    ///
    /// # Errors
    /// `worker_at_capacity` when too many others wait.
    pub async fn hash(&self, from: IpAddr, password: String) -> Result<PasswordHash, CallError> {
        let hashed = self.run(from, move || hash(password.as_bytes())).await?;
        hashed.map_err(|error| failure::internal("hashing failed", &error))
    }

    /// Returns whether a password matches the hash. Without a hash, as when a member has chosen no password yet, the
    /// answer is `false` after the same time.
    ///
    /// # Errors
    /// As [`Passwords::hash`].
    pub async fn verify(&self, from: IpAddr, password: String, known: Option<PasswordHash>) -> Result<bool, CallError> {
        let known = known.filter(PasswordHash::is_set);
        let expected = known.clone().unwrap_or_else(|| self.nobody.clone());
        let same = self.run(from, move || verify(password.as_bytes(), &expected)).await?;
        Ok(same && known.is_some())
    }

    /// Runs work on a password that was sent from a client address: queued, and on a thread that answers no requests.
    ///
    /// # Errors
    /// As [`Passwords::hash`].
    pub async fn run<T: Send + 'static>(
        &self,
        from: IpAddr,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, CallError> {
        let _place = self.waiting.try_take(network_of(from)).ok_or_else(CallError::worker_at_capacity)?;
        let turn = tokio::time::timeout(PATIENCE, self.running.clone().acquire_owned()).await;
        let Ok(Ok(turn)) = turn else { return Err(CallError::worker_at_capacity()) };
        let working = supervise::on_thread(move || {
            // Held by the work itself, so that a cancelled caller does not make room for another hash.
            let _turn = turn;
            work()
        });
        working.await.map_err(|error| failure::internal("a password could not be checked", &error))
    }
}

/// A random hash that belongs to no known password. Computing one would cost each start of a node as much as a login.
fn nobody() -> PasswordHash {
    let (salt, hash): ([u8; 16], [u8; Params::DEFAULT_OUTPUT_LEN]) = (rand::random(), rand::random());
    let (salt, hash) = (STANDARD_NO_PAD.encode(salt), STANDARD_NO_PAD.encode(hash));
    let (memory, passes, lanes) = (Params::DEFAULT_M_COST, Params::DEFAULT_T_COST, Params::DEFAULT_P_COST);
    PasswordHash(format!("$argon2id$v=19$m={memory},t={passes},p={lanes}${salt}${hash}"))
}

fn hash(password: &[u8]) -> Result<PasswordHash, argon2::password_hash::Error> {
    Argon2::default().hash_password(password).map(|hash| PasswordHash(hash.to_string()))
}

/// Verifies with the parameters of the hash, so that older hashes stay valid when the default changes.
fn verify(password: &[u8], expected: &PasswordHash) -> bool {
    Phc::new(&expected.0).is_ok_and(|hash| Argon2::default().verify_password(password, &hash).is_ok())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[tokio::test]
    async fn a_password_is_known_by_its_salted_hash_alone() {
        let passwords = Passwords::new();
        let known = passwords.hash(HERE, "correct horse battery".into()).await.unwrap();
        assert!(known.0.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{}", known.0);
        assert_ne!(passwords.hash(HERE, "correct horse battery".into()).await.unwrap(), known, "salted");
        // The hash of nobody must parse like a real one, and cost the same work.
        let (ours, theirs) = (Phc::new(&passwords.nobody.0).unwrap(), Phc::new(&known.0).unwrap());
        assert_eq!((ours.algorithm, ours.version, &ours.params), (theirs.algorithm, theirs.version, &theirs.params));
        assert_eq!(passwords.nobody.0.len(), known.0.len());
        let verify = |password: &str, known| passwords.verify(HERE, password.to_owned(), known);
        assert!(verify("correct horse battery", Some(known.clone())).await.unwrap());
        assert!(!verify("correct horse batterx", Some(known)).await.unwrap());
        assert!(!verify("anything", None).await.unwrap());
        assert!(!verify("x", Some(PasswordHash("damaged".into()))).await.unwrap());
        let unset = PasswordHash::unset(7);
        assert!(!unset.is_set() && !verify(&unset.0, Some(unset.clone())).await.unwrap());
    }

    #[test]
    fn an_address_has_its_share_of_the_queue_and_not_all_of_it() {
        let waiting = Passwords::new().waiting;
        let take = |host: u8| waiting.try_take(IpAddr::from([198, 51, 100, host]));
        let taken: Vec<_> = (0..QUEUE_FROM_ADDRESS).map(|_| take(1).unwrap()).collect();
        assert!(take(1).is_none() && take(2).is_some());
        drop(taken);
        assert!(take(1).is_some());
        assert!(waiting.is_idle(), "nothing is kept of addresses that wait for nothing");
    }
}
