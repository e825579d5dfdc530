//! Judges session tokens by the directory: the deployment's own, and those of the configured issuer.

use std::sync::Arc;

use jsonwebtoken::Header;
use model::error::CallError;
use model::id::CustomerId;
use model::time::Timestamp;
use raft::directory::records::CustomerRecord;
use raft::directory::state::DirectoryState;

use super::{Address, Verdict, refreshed};
use crate::audit::Suspect;
use crate::auth::access::{self, Claims};
use crate::auth::oidc::Identity;
use crate::caller::{Caller, Credential, Session};
use crate::request_context::RequestContext;

/// A token with a valid signature and validity period.
pub(super) enum Claimed {
    Own(Claims),
    Foreign(Identity),
}

/// Checks a token's signature and validity period. Its algorithm tells who signed it: own tokens are signed with a
/// shared secret, foreign ones with a key pair. Neither is ever checked with the other's key.
pub(super) async fn check(ctx: &RequestContext, token: &str, header: &Header) -> Result<Claimed, CallError> {
    let auth = &ctx.app.auth;
    if header.alg == access::ALGORITHM {
        let check = || auth.keys(ctx.cluster())?.access.check(token, ctx.now);
        let mut checked = check();
        if access::is_of_nobody(&checked) {
            // Another node may have signed the token with a key that this node does not know yet.
            refreshed(ctx).await?;
            checked = check();
        }
        return checked.map(Claimed::Own);
    }
    let issuer = auth.issuer.as_ref().ok_or_else(CallError::auth_invalid)?;
    issuer.check(token, header).await.map(Claimed::Foreign)
}

pub(super) fn judge(state: &DirectoryState, claimed: &Claimed, address: Address) -> Verdict {
    match claimed {
        Claimed::Own(claims) => judge_own(state, claims, address),
        Claimed::Foreign(identity) => judge_foreign(state, identity, address),
    }
}

/// The session must not have ended. Role and email are those of the directory now, whatever the token says.
fn judge_own(state: &DirectoryState, claims: &Claims, address: Address) -> Verdict {
    let Some(session) = state.users.session(claims.sid).filter(|session| session.user_id == claims.sub) else {
        return Verdict::Unknown;
    };
    let user = state.users.user(claims.sub);
    let suspect =
        |email: String| Suspect::Member { customer: session.customer_id, subject: session.user_id.to_string(), email };
    let email = user.map(|user| user.email.clone()).unwrap_or_default();
    if let Some(revoked_at) = session.revoked_at.or_else(|| deleted_at(state, session.customer_id)) {
        return Verdict::Refused(suspect(email), CallError::auth_revoked(revoked_at));
    }
    let (Some(user), Some(customer)) = (user, state.customers.get(&session.customer_id)) else {
        return Verdict::Unknown;
    };
    if !user.email_verified && address == Address::Confirmed {
        return Verdict::Refused(suspect(email), CallError::auth_no_email());
    }
    let own = Session {
        id: Some(session.id),
        subject: user.id.to_string(),
        email,
        role: user.role,
        expires_at: claims.expires_at(),
    };
    valid(own, customer)
}

fn judge_foreign(state: &DirectoryState, identity: &Identity, address: Address) -> Verdict {
    let Some(customer) = state.customers.get(&identity.customer) else { return Verdict::Unknown };
    let session = &identity.session;
    let suspect =
        || Suspect::Member { customer: customer.id, subject: session.subject.clone(), email: session.email.clone() };
    if let Some(deleted_at) = customer.deleted_at {
        return Verdict::Refused(suspect(), CallError::auth_revoked(deleted_at));
    }
    if !identity.email_verified && address == Address::Confirmed {
        return Verdict::Refused(suspect(), CallError::auth_no_email());
    }
    valid(session.clone(), customer)
}

fn valid(session: Session, customer: &Arc<CustomerRecord>) -> Verdict {
    let scopes = session.role.scopes();
    Verdict::Valid(Caller { credential: Credential::Session(session), customer: customer.clone(), scopes })
}

fn deleted_at(state: &DirectoryState, customer: CustomerId) -> Option<Timestamp> {
    state.customers.get(&customer).and_then(|customer| customer.deleted_at)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::auth::access::AccessKey;
    use crate::auth::access::tests::test_user;
    use crate::auth::session;
    use crate::resources::{test_caller, test_key};
    use model::error::ErrorCode;
    use model::field::Change;
    use model::member::Role;
    use raft::directory::command::{Command, Proposal};
    use raft::directory::users::{UserChange, UserCommand, UserRecord};
    use raft::machine::MemoryState;

    const NOW: Timestamp = Timestamp(1_767_225_600_000);

    /// A directory with a member who has logged in.
    struct Rig {
        state: DirectoryState,
        store: MemoryState,
        user: UserRecord,
        claims: Claims,
    }

    impl Rig {
        fn new() -> Self {
            let customer = (*test_caller(&[], None).customer).clone();
            let (key, _) = test_key(customer.id, &[], None, NOW);
            let user = test_user(customer.id);
            let (session, _) = session::open(&user, NOW);
            let signing = AccessKey::new(&[1; 32]);
            let claims = signing.check(&signing.issue(&user, &session, NOW).unwrap(), NOW).unwrap();
            let store = MemoryState::new();
            let mut rig = Self { state: DirectoryState::load(&store), store, user: user.clone(), claims };
            rig.run(Command::CreateCustomer { customer: Box::new(customer), key });
            rig.run(Command::Users(UserCommand::Create(user)));
            rig.run(Command::Users(UserCommand::OpenSession(session)));
            rig
        }

        fn run(&mut self, command: Command) {
            let proposal = Proposal::new(command, NOW, Vec::new());
            self.state.apply(proposal, &mut self.store).0.unwrap();
        }

        fn change(&mut self, change: UserChange) {
            let (customer, id) = (self.user.customer_id, self.user.id);
            self.run(Command::Users(UserCommand::Update { customer, id, change }));
        }

        fn judge(&self) -> Result<Role, ErrorCode> {
            match judge(&self.state, &Claimed::Own(self.claims.clone()), Address::Confirmed) {
                Verdict::Valid(caller) => Ok(caller.session().unwrap().role),
                Verdict::Refused(_, error) => Err(error.code),
                Verdict::Unknown => Err(ErrorCode::AuthInvalid),
            }
        }
    }

    #[test]
    fn a_session_has_the_role_of_the_directory_and_not_of_its_token() {
        let mut rig = Rig::new();
        assert_eq!(rig.judge(), Ok(Role::Admin));
        rig.change(UserChange { role: Change::To(Role::Viewer), ..UserChange::default() });
        assert_eq!(rig.judge(), Ok(Role::Viewer));
        rig.change(UserChange { email_verified: Change::To(false), ..UserChange::default() });
        assert_eq!(rig.judge(), Err(ErrorCode::AuthNoEmail));
        let confirming = judge(&rig.state, &Claimed::Own(rig.claims.clone()), Address::Any);
        assert!(matches!(confirming, Verdict::Valid(_)));
    }

    #[test]
    fn a_session_that_was_ended_opens_nothing() {
        let mut rig = Rig::new();
        let id = rig.claims.sid;
        rig.run(Command::Users(UserCommand::RevokeSession { id }));
        assert_eq!(rig.judge(), Err(ErrorCode::AuthRevoked));
        let mut rig = Rig::new();
        let (customer, id) = (rig.user.customer_id, rig.user.id);
        rig.run(Command::Users(UserCommand::Delete { customer, id }));
        assert_eq!(rig.judge(), Err(ErrorCode::AuthRevoked));
        let mut rig = Rig::new();
        rig.run(Command::DeleteCustomer { id: rig.user.customer_id });
        assert_eq!(rig.judge(), Err(ErrorCode::AuthRevoked));
    }

    #[test]
    fn a_foreign_token_must_name_a_customer_that_is_there() {
        let rig = Rig::new();
        let identity = |customer, email_verified| {
            let (subject, email) = ("u1".into(), "a@b.c".into());
            let session = Session { id: None, subject, email, role: Role::Viewer, expires_at: NOW };
            Claimed::Foreign(Identity { customer, email_verified, session })
        };
        let judge = |claimed| judge(&rig.state, &claimed, Address::Confirmed);
        assert!(matches!(judge(identity(rig.user.customer_id, true)), Verdict::Valid(_)));
        assert!(matches!(judge(identity(CustomerId::new(), true)), Verdict::Unknown));
        let Verdict::Refused(_, error) = judge(identity(rig.user.customer_id, false)) else { panic!("refused") };
        assert_eq!(error.code, ErrorCode::AuthNoEmail);
    }
}
