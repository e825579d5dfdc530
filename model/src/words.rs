//! Macros for enums whose variants are words of the interface, and for types that are shown as a single value.

/// Declares enums whose variants are shown, parsed, stored and counted by the given text.
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
            /// All words, in the order of [`Self::ALL`].
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

/// Declares a type's JSON schema, inlined where the type is used instead of under a name of its own.
macro_rules! schema_of {
    ($name:ident: $schema:tt) => {
        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }
    };
}

/// Implements `as_str` and `Display` for newtypes over a `String`.
macro_rules! texts {
    ($($name:ident),+) => {$(
        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    )+};
}

/// Implements `Debug` for a type that holds secrets, without showing them.
macro_rules! hidden {
    ($name:ident, $this:ident => $($shown:tt)+) => {
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let $this = self;
                write!(f, $($shown)+)
            }
        }
    };
}

pub(crate) use {hidden, schema_of, texts};
