//! Enums whose variants are words of the interface, and types that are shown as one value.

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

/// Says how the interface's documents show a type that is one value: where it stands, and under no name of its own.
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

/// Types that hold a text: what it is, and how they are shown.
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

/// How secrets are shown to whoever debugs: by no part of them that is secret.
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
