//! Members, sessions, and what expires.

use model::field::Change as Patch;
use model::format::Format;
use model::id::{AuditId, CustomerId, SessionId, UserId};
use model::member::Role;
use model::time::Timestamp;

use super::members::formed;
use super::quotas::with_format;
use super::{Rig, customer, key, proposal, with_customer};
use crate::command::{Command, Rejection, Reply};
use crate::records::{AuditActor, AuditEntry};
use crate::state::{DirectoryState, keys_before};
use crate::users::{MAX_SESSIONS, PasswordHash, SessionRecord, UserChange, UserCommand, UserRecord, Verification};

fn audit(customer_id: Option<CustomerId>, time: i64) -> AuditEntry {
    AuditEntry {
        id: AuditId::random(),
        customer_id,
        action: "auth.failed".into(),
        actor: AuditActor { kind: "unknown".into(), id: None, prefix: None, email: None },
        target: None,
        ip: None,
        user_agent: None,
        request_id: None,
        success: false,
        created_at: Timestamp(time),
        details: Default::default(),
    }
}

const LATER: Timestamp = Timestamp(1_000_000);

pub(super) fn user(customer: CustomerId, email: &str) -> UserRecord {
    UserRecord {
        id: UserId::random(),
        customer_id: customer,
        email: email.into(),
        password: PasswordHash("$argon2id$...".into()),
        role: Role::Owner,
        email_verified: false,
        verification: None,
        created_at: Timestamp(1),
        last_login_at: None,
    }
}

pub(super) fn session(user: &UserRecord) -> SessionRecord {
    SessionRecord {
        id: SessionId::new(),
        customer_id: user.customer_id,
        user_id: user.id,
        family: [1; 32],
        token: [2; 32],
        created_at: Timestamp(1),
        refreshed_at: Timestamp(1),
        expires_at: LATER,
        revoked_at: None,
    }
}

fn with_user(rig: &mut Rig) -> UserRecord {
    let customer = with_customer(rig, None);
    let user = user(customer.id, "ann@example.com");
    rig.run(Command::Users(UserCommand::Create(user.clone()))).unwrap();
    user
}

fn open(rig: &mut Rig, user: &UserRecord) -> SessionId {
    let session = session(user);
    rig.run(Command::Users(UserCommand::OpenSession(session.clone()))).unwrap();
    session.id
}

fn revoked(rig: &Rig, id: SessionId) -> bool {
    rig.shared.state.read().users.session(id).unwrap().revoked_at.is_some()
}

#[test]
fn an_address_belongs_to_one_member_of_all_customers() {
    let mut rig = Rig::new();
    let first = with_user(&mut rig);
    let other = with_customer(&mut rig, None);
    let again = Command::Users(UserCommand::Create(user(other.id, &first.email)));
    assert_eq!(rig.run(again).unwrap_err(), Rejection::EmailTaken);
    let newcomer = customer(None);
    let owner = user(newcomer.id, &first.email);
    let session = session(&owner);
    let key = Box::new(key(newcomer.id, None));
    let sign_up = UserCommand::SignUp { customer: Box::new(newcomer.clone()), key, user: owner, session };
    assert_eq!(rig.run(Command::Users(sign_up)).unwrap_err(), Rejection::EmailTaken);
    assert!(!rig.shared.state.read().customers.contains_key(&newcomer.id), "all or nothing");

    rig.run(Command::Users(UserCommand::Delete { customer: first.customer_id, id: first.id })).unwrap();
    rig.run(Command::Users(UserCommand::Create(user(other.id, &first.email)))).unwrap();
}

#[test]
fn a_refresh_token_is_good_once() {
    let mut rig = Rig::new();
    let user = with_user(&mut rig);
    let id = open(&mut rig, &user);
    let rotate =
        |from, to| Command::Users(UserCommand::RotateSession { id, from: [from; 32], to: [to; 32], expires_at: LATER });
    rig.run(rotate(2, 3)).unwrap();
    assert_eq!(rig.run(rotate(2, 4)).unwrap_err(), Rejection::SessionMoved);
    rig.run(rotate(3, 4)).unwrap();
    rig.run(Command::Users(UserCommand::RevokeSession { id })).unwrap();
    assert_eq!(rig.run(rotate(4, 5)).unwrap_err(), Rejection::SessionOver);
    assert!(revoked(&rig, id));
}

#[test]
fn a_new_password_a_removal_and_the_end_of_the_account_end_the_sessions() {
    let mut rig = Rig::new();
    let user = with_user(&mut rig);
    let (customer, id) = (user.customer_id, user.id);
    let change = |change| Command::Users(UserCommand::Update { customer, id, change });

    let first = open(&mut rig, &user);
    rig.run(change(UserChange { role: Patch::To(Role::Viewer), ..UserChange::default() })).unwrap();
    assert!(!revoked(&rig, first), "a role acts through the directory");
    rig.run(change(UserChange { password: Patch::To(PasswordHash("x".into())), ..UserChange::default() })).unwrap();
    assert!(revoked(&rig, first));

    let second = open(&mut rig, &user);
    rig.run(Command::Users(UserCommand::Delete { customer, id })).unwrap();
    assert!(revoked(&rig, second));
    assert!(rig.shared.state.read().users.user(id).is_none());

    let user = with_user(&mut rig);
    let third = open(&mut rig, &user);
    rig.run(Command::DeleteCustomer { id: user.customer_id }).unwrap();
    assert!(revoked(&rig, third));
    let refused = rig.run(Command::Users(UserCommand::OpenSession(session(&user))));
    assert_eq!(refused.unwrap_err(), Rejection::CustomerNotFound);
}

#[test]
fn of_two_owners_who_remove_each_other_one_stays() {
    let mut rig = Rig::new();
    let first = with_user(&mut rig);
    let customer = first.customer_id;
    let owner = |email, password| UserRecord { password, ..user(customer, email) };
    let second = owner("second@example.com", first.password.clone());
    let invited = owner("invited@example.com", PasswordHash::unset(1));
    for user in [&second, &invited] {
        rig.run(Command::Users(UserCommand::Create(user.clone()))).unwrap();
    }
    let kept = |command| Command::Users(UserCommand::KeepOwner(Box::new(command)));
    let remove = |id| kept(UserCommand::Delete { customer, id });
    let to = |id, role| {
        let change = UserChange { role: Patch::To(role), ..UserChange::default() };
        kept(UserCommand::Update { customer, id, change })
    };
    rig.run(remove(first.id)).unwrap();
    for command in [remove(second.id), to(second.id, Role::Admin)] {
        assert_eq!(rig.run(command).unwrap_err(), Rejection::LastOwner);
    }
    rig.run(to(second.id, Role::Owner)).unwrap();
    // An owner who has not accepted the invitation does not count, and may be removed.
    rig.run(remove(invited.id)).unwrap();
    assert_eq!(rig.run(remove(first.id)).unwrap_err(), Rejection::UserNotFound);
    // Operators may leave an account without an owner.
    rig.run(Command::Users(UserCommand::Delete { customer, id: second.id })).unwrap();
}

#[test]
fn the_oldest_of_too_many_sessions_ends_and_a_restart_finds_the_others() {
    let mut rig = Rig::new();
    let user = with_user(&mut rig);
    let opened: Vec<SessionId> = (0..MAX_SESSIONS + 2).map(|_| open(&mut rig, &user)).collect();
    let loaded = DirectoryState::load(&rig.store);
    for state in [&*rig.shared.state.read(), &loaded] {
        let known: Vec<bool> = opened.iter().map(|id| state.users.session(*id).is_some()).collect();
        assert_eq!(known[..3], [false, false, true]);
        assert!(known[3..].iter().all(|known| *known));
        assert_eq!(state.users.with_email(&user.email).unwrap().last_login_at, Some(Timestamp(1000)));
    }
}

#[test]
fn sessions_that_have_ended_make_room_before_an_older_one_that_lives() {
    let mut rig = formed();
    let user = with_user(&mut rig);
    let lives = open(&mut rig, &user);
    let ended: Vec<SessionId> = (0..MAX_SESSIONS)
        .map(|_| {
            let id = open(&mut rig, &user);
            rig.run(Command::Users(UserCommand::RevokeSession { id })).unwrap();
            id
        })
        .collect();
    let is_known = |rig: &Rig, id: SessionId| rig.shared.state.read().users.session(id).is_some();
    assert_eq!([lives, ended[0], ended[1]].map(|id| is_known(&rig, id)), [true, false, true]);
    // Older releases end the oldest session, ended or not.
    with_format(&mut rig, Format::SECOND);
    open(&mut rig, &user);
    assert!(!is_known(&rig, lives));
}

#[test]
fn an_address_is_confirmed_by_the_last_token_before_it_expires() {
    let mut rig = Rig::new();
    let id = with_user(&mut rig).id;
    let expect = |byte, end| {
        let verification = Verification { hash: [byte; 32], expires_at: Timestamp(end) };
        Command::Users(UserCommand::ExpectVerification { id, verification })
    };
    let verify = |byte| Command::Users(UserCommand::Verify { id, hash: [byte; 32] });
    assert_eq!(rig.run(verify(1)).unwrap_err(), Rejection::VerificationUnknown);
    rig.run(expect(1, 2000)).unwrap();
    rig.run(expect(2, 2000)).unwrap();
    assert_eq!(rig.run(verify(1)).unwrap_err(), Rejection::VerificationUnknown);
    rig.run(expect(3, 1000)).unwrap();
    assert_eq!(rig.run(verify(3)).unwrap_err(), Rejection::VerificationUnknown, "expired");
    rig.run(expect(4, 2000)).unwrap();
    let Ok(Reply::User(user)) = rig.run(verify(4)) else { panic!("confirmed") };
    assert!(user.email_verified);
    assert_eq!(rig.run(verify(4)).unwrap_err(), Rejection::VerificationUnknown, "used");
}

#[test]
fn old_audit_entries_of_all_customers_go_in_bounded_steps() {
    let mut rig = Rig::new();
    let customers = [None, Some(CustomerId::random()), Some(CustomerId::random())];
    for customer in customers {
        for time in [10, 20, 30, 40] {
            let mut proposal = proposal(Command::Audit);
            proposal.audit = vec![audit(customer, time)];
            rig.propose(&proposal).result.unwrap();
        }
    }
    let left = |rig: &Rig| keys_before(&rig.store, Timestamp(i64::MAX), usize::MAX).len();
    assert_eq!(left(&rig), 12);
    let expire = || Command::Expire { audit: Timestamp(30), sessions: Timestamp(0), most: 4 };
    assert!(matches!(rig.run(expire()), Ok(Reply::Removed { more: true })));
    assert_eq!(left(&rig), 8);
    assert!(matches!(rig.run(expire()), Ok(Reply::Removed { more: false })));
    assert_eq!(left(&rig), 6);
    assert!(keys_before(&rig.store, Timestamp(30), 1).is_empty());
}
