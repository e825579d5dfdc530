//! Maps the network's reasons for ending a session to the gateway's. An unknown reason counts as a broken connection:
//! only an explicit statement of the network unlinks a channel.

use model::time::Timestamp;
use network::driver::EndReason;
use wacore::types::events::{ConnectFailureReason, Event, LoggedOut};

/// The network's code for too many logins.
pub const TOO_MANY: i32 = 429;

/// The end of the session that an event means; `None` if the session goes on.
pub fn of(event: &Event) -> Option<EndReason> {
    Some(match event {
        Event::StreamReplaced(_) => EndReason::Replaced,
        Event::LoggedOut(out) => logged_out(out),
        Event::TemporaryBan(ban) => {
            EndReason::Banned { until: Some(Timestamp::now().plus(ban.expire.to_std().unwrap_or_default())) }
        }
        Event::ClientOutdated(_) => EndReason::ClientOutdated,
        Event::ConnectFailure(failure) => of_failure(&failure.reason, failure.message.as_deref()),
        // A stream error without a code is about one stanza; the stream goes on.
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
