//! Enums whose variants are words of the interface.

/// Declares enums of words: a variant is shown, read, kept and counted by the text that stands beside it.
#[macro_export]
macro_rules! words {
    ($(
        $(#[$about:meta])*
        $name:ident { $($(#[$says:meta])* $variant:ident = $word:literal,)+ }
    )+) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[$says])* #[serde(rename = $word)] $variant,)+ }

        #[allow(dead_code, reason = "not all that have words are also listed, read and shown")]
        impl $name {
            /// In the order of [`Self::ALL`].
            pub const WORDS: &[&str] = &[$($word,)+];

            pub const ALL: [Self; Self::WORDS.len()] = [$(Self::$variant,)+];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            pub fn parse(text: &str) -> Option<Self> {
                match text {
                    $($word => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    )+};
}
