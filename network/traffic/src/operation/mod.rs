//! Requests of a channel to the network, other than sends: per area, one enum of operations and one of answers.
//!
//! An operation is written to the session under an id (`network::driver::Session::operate`). Its answer is an event of
//! the session and follows the notices of what it changed, so that the change is in the gateway's store before the
//! caller is answered. To add an area, add a module here and a line of `areas!`.

pub mod account;
pub mod business;
pub mod calls;
pub mod chats;
pub mod communities;
pub mod contacts;
pub mod groups;
pub mod labels;
pub mod newsletters;
pub mod picture;
pub mod presence;

use serde::{Deserialize, Serialize};

use self::account::{
    BlacklistAnswer, BlacklistOperation, PrivacyAnswer, PrivacyOperation, ProfileAnswer, ProfileOperation,
};
use self::business::{BusinessAnswer, BusinessOperation};
use self::calls::{CallAnswer, CallOperation};
use self::chats::{ChatAnswer, ChatOperation};
use self::communities::{CommunityAnswer, CommunityOperation};
use self::contacts::{ContactAnswer, ContactOperation};
use self::groups::{GroupAnswer, GroupOperation};
use self::labels::{LabelAnswer, LabelOperation};
use self::newsletters::{NewsletterAnswer, NewsletterOperation};
use self::presence::{PresenceAnswer, PresenceOperation};

/// A permanent refusal by the network, with code and text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    pub code: u16,
    pub text: String,
    /// The driver's interpretation: codes mean different things on different networks.
    #[serde(default, skip_serializing_if = "RefusedKind::is_other")]
    pub kind: RefusedKind,
}

/// The kind of a refusal, if the gateway has a term for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusedKind {
    /// The recipient does not exist.
    Recipient,
    /// The target is in the requested state already, or was changed elsewhere at the same time.
    Conflict,
    /// The driver does not support the operation; the text names the feature.
    Unsupported,
    /// The account is not a business account.
    NotBusiness,
    #[default]
    Other,
}

impl RefusedKind {
    fn is_other(&self) -> bool {
        *self == Self::Other
    }
}

impl Refused {
    pub fn new(code: u16, text: impl Into<String>) -> Self {
        Self { code, text: text.into(), kind: RefusedKind::Other }
    }

    #[must_use]
    pub fn of(self, kind: RefusedKind) -> Self {
        Self { kind, ..self }
    }
}

/// The operations of one area, with the type of their answers.
pub trait Area: Into<Operation> {
    type Answer: Send;

    /// The answer, if it belongs to this area.
    fn answer(answer: Answer) -> Option<Self::Answer>;
}

macro_rules! areas {
    ($($area:ident: $operation:ident => $answer:ident;)*) => {
        /// An operation of any area.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub enum Operation {
            $($area($operation),)*
        }

        /// The answer to an [`Operation`] of the same area.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub enum Answer {
            $($area($answer),)*
        }

        $(
            impl From<$operation> for Operation {
                fn from(operation: $operation) -> Self {
                    Self::$area(operation)
                }
            }

            impl From<$answer> for Answer {
                fn from(answer: $answer) -> Self {
                    Self::$area(answer)
                }
            }

            impl Area for $operation {
                type Answer = $answer;

                fn answer(answer: Answer) -> Option<$answer> {
                    match answer {
                        Answer::$area(answer) => Some(answer),
                        _ => None,
                    }
                }
            }
        )*
    };
}

areas! {
    Groups: GroupOperation => GroupAnswer;
    Calls: CallOperation => CallAnswer;
    Chats: ChatOperation => ChatAnswer;
    Contacts: ContactOperation => ContactAnswer;
    Presence: PresenceOperation => PresenceAnswer;
    Communities: CommunityOperation => CommunityAnswer;
    Newsletters: NewsletterOperation => NewsletterAnswer;
    Business: BusinessOperation => BusinessAnswer;
    Blacklist: BlacklistOperation => BlacklistAnswer;
    Profile: ProfileOperation => ProfileAnswer;
    Privacy: PrivacyOperation => PrivacyAnswer;
    Labels: LabelOperation => LabelAnswer;
}
