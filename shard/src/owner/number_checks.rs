//! How many numbers a channel may look up: what the network bans for first.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use model::error::CallError;
use model::limit::LimitScope;
use network::operation::Operation;
use network::operation::contacts::ContactOperation;

/// Numbers in any such time.
const MOST: usize = 200;
const WINDOW: Duration = Duration::from_secs(60);

/// What was looked up lately, oldest first. In memory: a new owner begins anew.
#[derive(Default)]
pub struct NumberChecks(VecDeque<(Instant, usize)>);

impl NumberChecks {
    /// Counts a look-up of numbers; every other operation passes.
    ///
    /// # Errors
    /// `rate_limited`, with when there is room for it.
    pub fn admit(&mut self, operation: &Operation, now: Instant) -> Result<(), CallError> {
        let Operation::Contacts(ContactOperation::Check { phones }) = operation else { return Ok(()) };
        self.0.retain(|(at, _)| now.duration_since(*at) < WINDOW);
        let mut counted: usize = self.0.iter().map(|(_, count)| count).sum();
        if counted + phones.len() <= MOST {
            self.0.push_back((now, phones.len()));
            return Ok(());
        }
        let fits = self.0.iter().find(|(_, count)| {
            counted -= count;
            counted + phones.len() <= MOST
        });
        let wait = fits.map_or(WINDOW, |(at, _)| WINDOW.saturating_sub(now.duration_since(*at)));
        let seconds = u32::try_from(wait.as_millis().div_ceil(1000)).unwrap_or(u32::MAX);
        Err(CallError::rate_limited(LimitScope::Channel, MOST as u32, seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_hundred_numbers_pass_in_any_minute_and_a_refusal_says_when_there_is_room() {
        let mut checks = NumberChecks::default();
        let began = Instant::now();
        let mut check = |count: usize, after: u64| {
            let operation = ContactOperation::Check { phones: vec![String::new(); count] }.into();
            checks.admit(&operation, began + Duration::from_secs(after)).map_err(|error| error.retry_after)
        };
        assert_eq!(check(50, 0), Ok(()));
        assert_eq!(check(50, 10), Ok(()));
        assert_eq!(check(50, 20), Ok(()));
        assert_eq!(check(50, 30), Ok(()));
        assert_eq!(check(1, 40), Err(Some(20)));
        assert_eq!(check(50, 50), Err(Some(10)));
        assert_eq!(check(50, 60), Ok(()));
        assert_eq!(check(1, 61), Err(Some(9)));
    }
}
