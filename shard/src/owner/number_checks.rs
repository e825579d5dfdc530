//! Limits the numbers that a channel looks up, which is what the network bans for first.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use model::address::Address;
use model::error::CallError;
use model::limit::LimitScope;
use network::operation::Operation;
use network::operation::account::BlacklistOperation;
use network::operation::business::BusinessOperation;
use network::operation::contacts::ContactOperation;

/// Maximum numbers within [`WINDOW`].
const MOST: usize = 200;
const WINDOW: Duration = Duration::from_secs(60);

/// How many numbers an operation has the network look up, because the answer tells whether they are registered.
/// Existing contacts may be asked about any number of times.
pub fn looked_up(operation: &Operation, is_contact: impl Fn(&Address) -> bool) -> usize {
    match operation {
        Operation::Contacts(ContactOperation::Check { phones }) => phones.len(),
        Operation::Contacts(ContactOperation::Show { contact } | ContactOperation::Rename { contact, .. })
        | Operation::Blacklist(BlacklistOperation::Block { contact })
        | Operation::Business(
            BusinessOperation::ProfileOf { contact } | BusinessOperation::CatalogOf { contact, .. },
        ) => usize::from(!is_contact(contact)),
        _ => 0,
    }
}

/// Recent look-ups, oldest first. In memory only: a new owner starts without any.
#[derive(Default)]
pub struct NumberChecks(VecDeque<(Instant, usize)>);

impl NumberChecks {
    /// Counts a look-up of this many numbers; zero always passes.
    ///
    /// # Errors
    /// `rate_limited`, with the time until there is room.
    pub fn admit(&mut self, numbers: usize, now: Instant) -> Result<(), CallError> {
        if numbers == 0 {
            return Ok(());
        }
        self.0.retain(|(at, _)| now.duration_since(*at) < WINDOW);
        let mut counted: usize = self.0.iter().map(|(_, count)| count).sum();
        if counted + numbers <= MOST {
            self.0.push_back((now, numbers));
            return Ok(());
        }
        let fits = self.0.iter().find(|(_, count)| {
            counted -= count;
            counted + numbers <= MOST
        });
        let wait = fits.map_or(WINDOW, |(at, _)| WINDOW.saturating_sub(now.duration_since(*at)));
        let seconds = u32::try_from(wait.as_millis().div_ceil(1000)).unwrap_or(u32::MAX);
        Err(CallError::rate_limited(LimitScope::Channel, MOST as u32, seconds))
    }
}

#[cfg(test)]
mod tests {
    use model::address::Suffixes;

    use super::*;

    #[test]
    fn two_hundred_numbers_pass_in_any_minute_and_a_refusal_says_when_there_is_room() {
        let mut checks = NumberChecks::default();
        let began = Instant::now();
        let mut check = |count: usize, after: u64| {
            checks.admit(count, began + Duration::from_secs(after)).map_err(|error| error.retry_after)
        };
        assert_eq!(check(50, 0), Ok(()));
        assert_eq!(check(50, 10), Ok(()));
        assert_eq!(check(50, 20), Ok(()));
        assert_eq!(check(50, 30), Ok(()));
        assert_eq!(check(1, 40), Err(Some(20)));
        assert_eq!(check(50, 50), Err(Some(10)));
        assert_eq!(check(50, 60), Ok(()));
        assert_eq!(check(1, 61), Err(Some(9)));
        assert_eq!(check(0, 61), Ok(()), "what looks nobody up passes");
    }

    #[test]
    fn whatever_tells_whether_a_stranger_is_registered_looks_one_number_up() {
        let somebody = |digits: &str| Suffixes::simulated().phone_address(digits);
        let known = somebody("15551234567");
        let counts = |operation: Operation| looked_up(&operation, |contact| *contact == known);
        for (digits, numbers) in [("15551234567", 0), ("19999999999", 1)] {
            let contact = somebody(digits);
            assert_eq!(counts(ContactOperation::Show { contact: contact.clone() }.into()), numbers);
            assert_eq!(counts(ContactOperation::Rename { contact: contact.clone(), name: None }.into()), numbers);
            assert_eq!(counts(BlacklistOperation::Block { contact: contact.clone() }.into()), numbers);
            assert_eq!(counts(BusinessOperation::ProfileOf { contact: contact.clone() }.into()), numbers);
            let catalog = BusinessOperation::CatalogOf { contact: contact.clone(), after: None, limit: 10 };
            assert_eq!(counts(catalog.into()), numbers);
            assert_eq!(counts(BlacklistOperation::Unblock { contact }.into()), 0);
        }
        assert_eq!(counts(ContactOperation::Check { phones: vec!["15551234567".to_owned(); 2] }.into()), 2);
        assert_eq!(counts(ContactOperation::List.into()), 0);
    }
}
