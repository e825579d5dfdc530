//! Why the network ends a session, in the gateway's words. What is unknown is a broken connection: nothing unlinks a channel but
//! what the network says plainly.

use model::time::Timestamp;
use network::driver::EndReason;
use wacore::types::events::{ConnectFailureReason, Event, LoggedOut};

/// The network's code for too many log-ins.
pub const TOO_MANY: i32 = 429;

/// The end that an event means; `None` when it means none.
pub fn of(event: &Event) -> Option<EndReason> {
    Some(match event {
        Event::StreamReplaced(_) => EndReason::Replaced,
        Event::LoggedOut(out) => logged_out(out),
        Event::TemporaryBan(ban) => {
            EndReason::Banned { until: Some(Timestamp::now().plus(ban.expire.to_std().unwrap_or_default())) }
        }
        Event::ClientOutdated(_) => EndReason::ClientOutdated,
        Event::ConnectFailure(failure) => of_failure(&failure.reason, failure.message.as_deref()),
        // One without a code is about a stanza, and the stream goes on.
        Event::StreamError(error) if error.code.is_empty() => return None,
        Event::StreamError(error) => EndReason::Transport(format!("the network ended the stream: {}", error.code)),
        _ => return None,
    })
}

fn logged_out(out: &LoggedOut) -> EndReason {
    match out.reason {
        ConnectFailureReason::LoggedOut => EndReason::Unlinked,
        ref other => of_failure(other, None),
    }
}

fn of_failure(reason: &ConnectFailureReason, text: Option<&str>) -> EndReason {
    match reason {
        ConnectFailureReason::LoggedOut => EndReason::Unlinked,
        ConnectFailureReason::UnknownLogout
        | ConnectFailureReason::CatExpired
        | ConnectFailureReason::CatInvalid
        | ConnectFailureReason::NotFound
        | ConnectFailureReason::ClientUnknown => EndReason::Invalidated,
        ConnectFailureReason::TempBanned | ConnectFailureReason::AccountLocked => EndReason::Banned { until: None },
        ConnectFailureReason::ClientOutdated | ConnectFailureReason::BadUserAgent => EndReason::ClientOutdated,
        ConnectFailureReason::Unknown(TOO_MANY) => EndReason::TooManyLogins,
        other => EndReason::Transport(format!("the network refused the login: {other:?} {}", text.unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_unknown_unlinks_a_channel() {
        use ConnectFailureReason as Reason;
        let verdict = |reason: Reason| of_failure(&reason, None);
        assert_eq!(verdict(Reason::LoggedOut), EndReason::Unlinked);
        assert_eq!(verdict(Reason::UnknownLogout), EndReason::Invalidated);
        assert_eq!(verdict(Reason::AccountLocked), EndReason::Banned { until: None });
        assert_eq!(verdict(Reason::ClientOutdated), EndReason::ClientOutdated);
        for code in [400, 500, 501, 503, 599] {
            assert!(matches!(verdict(Reason::from(code)), EndReason::Transport(_)), "{code}");
        }
        assert_eq!(verdict(Reason::from(TOO_MANY)), EndReason::TooManyLogins);
    }
}
