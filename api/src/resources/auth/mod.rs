//! `/v1/auth/*`: login, sign-up and passwords of members. These routes are public: they cost a token of the client's
//! address, and attempts at guessing are counted cluster-wide.

pub mod attempts;
mod passwords;
mod sign_in;
mod sign_up;

use model::error::ErrorCode as E;
use model::field::rule;
use model::issue::{IssueCode, Violation};
use model::member::{LONGEST_EMAIL, fold_email};
use serde_json::{Value, json};

pub use self::passwords::Link;
pub use self::sign_in::{end_session, exchange_token, log_in};

use self::sign_up::{Nothing, SignUp, SignedUp};
use crate::auth::session::TokensView;
use crate::route::{POST, PUT, Route};

/// Error codes of all these routes while the cluster is unavailable or overloaded.
const BACKEND: [E; 2] = [E::AuthBackendUnavailable, E::WorkerAtCapacity];

/// Error codes of routes that require a session's token.
const SESSION: [E; 6] =
    [E::AuthMissing, E::AuthMalformed, E::AuthInvalid, E::AuthExpired, E::AuthRevoked, E::InsufficientScope];

/// For the examples in the OpenAPI document.
const EMAIL: &str = "ann@example.com";
const PASSWORD: &str = "correct horse battery";

pub fn routes() -> Vec<Route> {
    let routes = [
        Route::public(POST, "/v1/auth/signup", sign_up::sign_up)
            .doc("sign_up", "Create an account with its first member and key")
            .about(
                "404 if the deployment has no sign-up. Most deployments first send an e-mail to the address: they \
                 answer 202 for any address, and the response to `verify-email` has the account, its session and its \
                 key.",
            )
            .body(SignUp::parse, json!({ "email": EMAIL, "password": PASSWORD, "name": "Acme" }))
            .created::<SignedUp>()
            .accepted::<Nothing>()
            .errors(&[E::NotFound]),
        Route::public(POST, "/v1/auth/verify-email", sign_up::verify)
            .doc("verify_email", "Confirm an e-mail address with the token that was sent there")
            .about(
                "A token of a sign-up creates its account; a member's token confirms the address, and the response is \
                 empty.",
            )
            .body(sign_up::parse_token, json!({ "token": "from-the-message" }))
            .ok::<SignedUp>()
            .no_content()
            .errors(&[E::AuthInvalid, E::AuthExpired]),
        Route::public(POST, "/v1/auth/verify-email/resend", sign_up::resend)
            .doc("resend_verification", "Send the e-mail with the token again")
            .about("Sends to the address in the body; with a session's token and no body, to the session's member.")
            .optional_body(sign_up::parse_email, json!({ "email": EMAIL }))
            .accepted::<Nothing>()
            .errors(&SESSION)
            .errors(&[E::NoOp]),
        Route::public(POST, "/v1/auth/login", sign_in::login)
            .doc("log_in", "Log in as a member")
            .body(sign_in::parse_login, json!({ "email": EMAIL, "password": PASSWORD }))
            .ok::<TokensView>()
            .errors(&[E::AuthInvalid]),
        Route::public(POST, "/v1/auth/refresh", sign_in::refresh)
            .doc("refresh_tokens", "Exchange a refresh token for new tokens")
            .about("A refresh token works once; using it again ends its session.")
            .body(sign_in::parse_refresh, json!({ "refresh_token": "zrt_from-the-login" }))
            .ok::<TokensView>()
            .errors(&[E::AuthInvalid, E::AuthExpired, E::AuthRevoked]),
        Route::public(POST, "/v1/auth/logout", sign_in::logout)
            .doc("log_out", "End the session of the token")
            .bearer()
            .no_content()
            .errors(&SESSION)
            .errors(&[E::BadRequest]),
        Route::account(POST, "/v1/auth/password", passwords::change)
            .multi_channel()
            .session()
            .doc("change_password", "Change one's own password")
            .about("All sessions of the member end, including this one: log in with the new password.")
            .body(
                passwords::parse_change,
                json!({ "current_password": PASSWORD, "new_password": "staple battery horse" }),
            )
            .no_content(),
        Route::public(POST, "/v1/auth/password/reset", passwords::ask_for_reset)
            .doc("ask_for_password_reset", "Request an e-mail with which a member chooses a new password")
            .about("The response is the same for any address. 404 if the deployment sends no mail.")
            .body(sign_up::parse_email, json!({ "email": EMAIL }))
            .accepted::<Nothing>()
            .errors(&[E::NotFound]),
        Route::public(PUT, "/v1/auth/password/reset", passwords::set)
            .doc("set_password", "Choose a password with the token of an invitation or an e-mail")
            .about("The token works once, and confirms the address. Sessions of the member end.")
            .body(passwords::parse_set, json!({ "token": "zpw_from-the-message", "password": PASSWORD }))
            .no_content()
            .errors(&[E::AuthInvalid, E::AuthExpired]),
    ];
    routes.map(|route| route.errors(&BACKEND)).into()
}

/// Validates and folds the e-mail address of a new member.
pub fn email(value: &Value) -> Result<String, Violation> {
    email_by(fold_email, value)
}

/// Validates and folds an e-mail address by which a member is looked up.
fn known_email(value: &Value) -> Result<String, Violation> {
    email_by(model::member::known_email, value)
}

fn email_by(fold: fn(&str) -> Option<String>, value: &Value) -> Result<String, Violation> {
    let text = rule::string(value, || json!({ "format": "email", "maxLength": LONGEST_EMAIL }))?;
    fold(text).ok_or_else(|| Violation::new(IssueCode::Format, "must be an e-mail address"))
}

/// Validates a new password.
pub fn new_password(value: &Value) -> Result<String, Violation> {
    rule::text(12..=128)(value)
}
