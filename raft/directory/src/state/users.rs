//! Members and sessions in memory, and the commands about them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use model::field::Change as Patch;
use model::id::{CustomerId, SessionId, UserId};
use model::member::Role;
use model::time::Timestamp;

use super::{Change, DirectoryState, Update, records, remove_id};
use crate::command::{Rejection, Reply};
use crate::keys;
use crate::users::{MAX_SESSIONS, MAX_USERS, SessionRecord, UserChange, UserCommand, UserRecord};
use machine::View;

/// Members and sessions, with their indexes.
#[derive(Default)]
pub struct Users {
    users: HashMap<UserId, Arc<UserRecord>>,
    sessions: HashMap<SessionId, Arc<SessionRecord>>,
    by_email: HashMap<String, UserId>,
    of_customer: HashMap<CustomerId, BTreeSet<UserId>>,
    /// A member's sessions, oldest first: their ids sort by time.
    of_user: HashMap<UserId, BTreeSet<SessionId>>,
}

impl Users {
    pub(super) fn load(view: &dyn View) -> Self {
        let mut users = Self::default();
        records(view, keys::USERS).for_each(|user| users.index(user));
        records(view, keys::SESSIONS).for_each(|session| users.index_session(session));
        users
    }

    pub fn user(&self, id: UserId) -> Option<&Arc<UserRecord>> {
        self.users.get(&id)
    }

    /// The member with this folded address.
    pub fn with_email(&self, email: &str) -> Option<&Arc<UserRecord>> {
        self.users.get(self.by_email.get(email)?)
    }

    /// A customer's members, in the order of their creation.
    pub fn of_customer(&self, customer: CustomerId) -> impl Iterator<Item = &Arc<UserRecord>> {
        self.of_customer.get(&customer).into_iter().flatten().filter_map(|id| self.users.get(id))
    }

    /// Whether a member is its account's only owner who is not merely invited.
    fn is_last_owner(&self, id: UserId) -> bool {
        let owns = |user: &&Arc<UserRecord>| user.role == Role::Owner && !user.is_invited();
        let owner = self.user(id).filter(owns);
        owner.is_some_and(|owner| self.of_customer(owner.customer_id).filter(owns).count() == 1)
    }

    pub fn session(&self, id: SessionId) -> Option<&Arc<SessionRecord>> {
        self.sessions.get(&id)
    }

    /// A member's sessions, oldest first, ended or not.
    pub fn sessions_of(&self, user: UserId) -> Vec<Arc<SessionRecord>> {
        let ids = self.of_user.get(&user).into_iter().flatten();
        ids.filter_map(|id| self.sessions.get(id).cloned()).collect()
    }

    fn put(&mut self, user: UserRecord, update: &mut Update<'_>) {
        update.put(&keys::USERS.key(user.id.as_bytes()), &user);
        self.index(user);
    }

    fn put_session(&mut self, session: SessionRecord, update: &mut Update<'_>) {
        update.put(&keys::SESSIONS.key(session.id.as_bytes()), &session);
        self.index_session(session);
    }

    fn index(&mut self, user: UserRecord) {
        self.by_email.insert(user.email.clone(), user.id);
        self.of_customer.entry(user.customer_id).or_default().insert(user.id);
        self.users.insert(user.id, Arc::new(user));
    }

    fn index_session(&mut self, session: SessionRecord) {
        self.of_user.entry(session.user_id).or_default().insert(session.id);
        self.sessions.insert(session.id, Arc::new(session));
    }

    fn remove(&mut self, user: &UserRecord, update: &mut Update<'_>) {
        update.store.delete(&keys::USERS.key(user.id.as_bytes()));
        self.users.remove(&user.id);
        self.by_email.remove(&user.email);
        remove_id(&mut self.of_customer, user.customer_id, &user.id);
    }

    fn remove_session(&mut self, session: &SessionRecord, update: &mut Update<'_>) {
        update.store.delete(&keys::SESSIONS.key(session.id.as_bytes()));
        self.sessions.remove(&session.id);
        remove_id(&mut self.of_user, session.user_id, &session.id);
    }

    fn revoke_session(&mut self, session: &SessionRecord, at: Timestamp, update: &mut Update<'_>) -> SessionRecord {
        let revoked = SessionRecord { revoked_at: Some(session.revoked_at.unwrap_or(at)), ..session.clone() };
        self.put_session(revoked.clone(), update);
        revoked
    }

    /// Ends all sessions of a member.
    fn revoke_all(&mut self, user: UserId, update: &mut Update<'_>) {
        for session in self.sessions_of(user) {
            self.revoke_session(&session, update.at, update);
            update.changes.push(Change::Session(session.id));
        }
    }

    /// Sessions of a customer's members that are not revoked.
    pub(super) fn live_sessions_of(&self, customer: CustomerId) -> impl Iterator<Item = SessionId> {
        let sessions = self.of_customer(customer).filter_map(|user| self.of_user.get(&user.id)).flatten();
        sessions.copied().filter(|id| self.sessions.get(id).is_some_and(|session| session.revoked_at.is_none()))
    }

    /// Customers with a member's session that is not revoked; may repeat.
    pub(super) fn customers_with_sessions(&self) -> impl Iterator<Item = CustomerId> {
        self.sessions.values().filter(|session| session.revoked_at.is_none()).map(|session| session.customer_id)
    }

    /// Ends a session that is not revoked.
    pub(super) fn end_session(&mut self, id: SessionId, at: Timestamp, update: &mut Update<'_>) {
        if let Some(session) = self.session(id).filter(|session| session.revoked_at.is_none()).cloned() {
            self.revoke_session(&session, at, update);
            update.changes.push(Change::Session(id));
        }
    }

    /// Removes at most `most` members of a customer with their sessions; returns the number of members.
    pub(super) fn remove_customer(&mut self, customer: CustomerId, most: usize, update: &mut Update<'_>) -> usize {
        let users: Vec<Arc<UserRecord>> = self.of_customer(customer).take(most).cloned().collect();
        for user in &users {
            for session in self.sessions_of(user.id) {
                self.remove_session(&session, update);
                update.changes.push(Change::Session(session.id));
            }
            self.remove(user, update);
            update.changes.push(Change::User(user.id));
        }
        users.len()
    }

    pub fn has_session_before(&self, end: Timestamp) -> bool {
        self.sessions.values().any(|session| session.expires_at < end)
    }

    /// Removes at most `most` sessions that expired before `before`; returns whether there are more.
    pub(super) fn expire_sessions(&mut self, before: Timestamp, most: usize, update: &mut Update<'_>) -> bool {
        let over = |session: &&Arc<SessionRecord>| session.expires_at < before;
        let mut old: Vec<Arc<SessionRecord>> = self.sessions.values().filter(over).cloned().collect();
        // The map's order differs between replicas; the order of removal must not.
        old.sort_by_key(|session| session.id);
        old.iter().take(most).for_each(|session| self.remove_session(session, update));
        old.len() > most
    }
}

impl DirectoryState {
    pub(super) fn run_users(&mut self, command: UserCommand, update: &mut Update<'_>) -> Result<Reply, Rejection> {
        let at = update.at;
        match command {
            UserCommand::SignUp { customer, key, user, session } => {
                self.is_under_master(&customer.data_key)?;
                self.require_free(&user.email)?;
                update.changes.extend([
                    Change::Customer(customer.id),
                    Change::Key(key.id),
                    Change::Session(session.id),
                ]);
                self.put_customer((*customer).clone(), update);
                self.put_key(*key, update);
                self.users.put(user, update);
                self.users.put_session(session, update);
                Ok(Reply::Customer(*customer))
            }
            UserCommand::Create(user) => {
                self.live_customer(user.customer_id)?;
                self.require_free(&user.email)?;
                if self.users.of_customer(user.customer_id).count() >= MAX_USERS as usize {
                    return Err(Rejection::UserLimit { limit: MAX_USERS });
                }
                self.users.put(user.clone(), update);
                Ok(Reply::User(user))
            }
            UserCommand::Update { customer, id, change: UserChange { role, password, email_verified } } => {
                let mut user = (*self.user_of(customer, id)?).clone();
                role.apply(&mut user.role);
                email_verified.apply(&mut user.email_verified);
                if !password.is_keep() {
                    password.apply(&mut user.password);
                    self.users.revoke_all(id, update);
                }
                self.users.put(user.clone(), update);
                update.done(Change::User(id), Reply::User(user))
            }
            UserCommand::Delete { customer, id } => {
                let user = self.user_of(customer, id)?;
                self.users.revoke_all(id, update);
                self.users.remove(&user, update);
                update.done(Change::User(id), Reply::Done)
            }
            UserCommand::ExpectVerification { id, verification } => {
                let user = self.users.user(id).ok_or(Rejection::UserNotFound)?;
                let expecting = UserRecord { verification: Some(verification), ..(**user).clone() };
                self.users.put(expecting, update);
                Ok(Reply::Done)
            }
            UserCommand::Verify { id, hash } => {
                let user = self.users.user(id).ok_or(Rejection::UserNotFound)?;
                let expected = user.verification.as_ref().filter(|expected| expected.expires_at > at);
                expected.filter(|expected| expected.hash == hash).ok_or(Rejection::VerificationUnknown)?;
                let verified = UserRecord { email_verified: true, verification: None, ..(**user).clone() };
                self.users.put(verified.clone(), update);
                update.done(Change::User(id), Reply::User(verified))
            }
            UserCommand::OpenSession(session) => self.open_session(session, update),
            UserCommand::RotateSession { id, from, to, expires_at } => {
                let session = self.users.session(id).ok_or(Rejection::SessionNotFound)?;
                let customer_lives = self.live_customer(session.customer_id).is_ok();
                if session.revoked_at.is_some() || session.expires_at <= at || !customer_lives {
                    return Err(Rejection::SessionOver);
                }
                if session.token != from {
                    return Err(Rejection::SessionMoved);
                }
                let rotated = SessionRecord { token: to, refreshed_at: at, expires_at, ..(**session).clone() };
                self.users.put_session(rotated.clone(), update);
                Ok(Reply::Session(rotated))
            }
            UserCommand::KeepOwner(command) => {
                let leaves = match &*command {
                    UserCommand::Delete { id, .. } => Some(*id),
                    UserCommand::Update { id, change: UserChange { role: Patch::To(role), .. }, .. }
                        if *role != Role::Owner =>
                    {
                        Some(*id)
                    }
                    _ => None,
                };
                if leaves.is_some_and(|id| self.users.is_last_owner(id)) {
                    return Err(Rejection::LastOwner);
                }
                self.run_users(*command, update)
            }
            UserCommand::RevokeSession { id } => {
                let session = self.users.session(id).cloned().ok_or(Rejection::SessionNotFound)?;
                let revoked = self.users.revoke_session(&session, at, update);
                update.done(Change::Session(id), Reply::Session(revoked))
            }
        }
    }

    fn open_session(&mut self, session: SessionRecord, update: &mut Update<'_>) -> Result<Reply, Rejection> {
        let at = update.at;
        self.live_customer(session.customer_id)?;
        let user = self.user_of(session.customer_id, session.user_id)?;
        let mut known = self.users.sessions_of(user.id);
        if self.is_of_third_format() {
            // Ended sessions are removed before live ones, the oldest first in both cases.
            known.sort_by_key(|session| session.revoked_at.is_none() && session.expires_at > at);
        }
        for oldest in known.iter().take((known.len() + 1).saturating_sub(MAX_SESSIONS)) {
            self.users.remove_session(oldest, update);
            update.changes.push(Change::Session(oldest.id));
        }
        self.users.put(UserRecord { last_login_at: Some(at), ..(*user).clone() }, update);
        update.changes.push(Change::Session(session.id));
        self.users.put_session(session.clone(), update);
        Ok(Reply::Session(session))
    }

    fn user_of(&self, customer: CustomerId, id: UserId) -> Result<Arc<UserRecord>, Rejection> {
        let user = self.users.user(id).filter(|user| user.customer_id == customer);
        user.cloned().ok_or(Rejection::UserNotFound)
    }

    fn require_free(&self, email: &str) -> Result<(), Rejection> {
        self.users.with_email(email).map_or(Ok(()), |_| Err(Rejection::EmailTaken))
    }
}
