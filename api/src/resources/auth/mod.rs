//! `/v1/auth/*`: how members get in and out (supplement 21.5 and 31, row 37). Public routes: they cost a token of the
//! client's address, and what may be guessed is counted over the whole cluster.

mod sign_in;
mod sign_up;

use model::field::rule;
use model::issue::{Fault, IssueCode};
use model::member::{LONGEST_EMAIL, fold_email};
use serde_json::{Value, json};

use crate::route::Route;

pub fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/auth/signup").public(sign_up::sign_up),
        Route::post("/v1/auth/verify-email").public(sign_up::verify),
        Route::post("/v1/auth/verify-email/resend").public(sign_up::resend),
        Route::post("/v1/auth/login").public(sign_in::login),
        Route::post("/v1/auth/refresh").public(sign_in::refresh),
        Route::post("/v1/auth/logout").public(sign_in::logout),
    ]
}

/// The rule of an e-mail address in a body; it is folded.
pub fn email(value: &Value) -> Result<String, Fault> {
    let text = rule::string(value, || json!({ "format": "email", "maxLength": LONGEST_EMAIL }))?;
    fold_email(text).ok_or_else(|| Fault::new(IssueCode::Format, "must be an e-mail address"))
}

/// The rule of a new password (supplement 31, row 37).
pub fn new_password(value: &Value) -> Result<String, Fault> {
    rule::text(12..=128)(value)
}
