//! Reads and writes MessagePack like `rmp-serde`, with less code to compile.
//!
//! The reader of `rmp-serde` is generic down to the bytes of a number, so that the compiler instantiates all of it for
//! every visitor of every type: half of what was compiled for the crates that store and send records. Here a single
//! non-generic function reads the next token, and only the dispatch from token to visitor is instantiated. The writer
//! does the same for serialization (`docs/adr/0011-one-reader-of-messagepack.md`).

mod writer;

use rmp::Marker;
use serde::de::{self, Deserialize, DeserializeSeed, Expected, Unexpected, Visitor};

pub use self::writer::{append, append_named, to_vec, to_vec_named};

/// Maximum nesting depth; deeper values would overflow the stack.
const DEPTH: u16 = 1024;

/// The bytes are not MessagePack or not of the requested type, or a value cannot be serialized.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("it is cut short")]
    Short,
    #[error("no value begins with the byte {0:#04x}")]
    Marker(u8),
    #[error("a text is not UTF-8")]
    Text,
    #[error("values lie in each other more than {DEPTH} deep")]
    Deep,
    #[error("a list, a map or an enum has {0} values where others were expected")]
    Length(u32),
    #[error("{0}")]
    Mismatch(Box<str>),
}

impl de::Error for Error {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self::Mismatch(message.to_string().into())
    }
}

/// Deserializes the value at the start of `bytes` and ignores what follows. Strings and bytes may be borrowed.
///
/// # Errors
/// [`Error`] if there is no value, or none of this type.
pub fn from_slice<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, Error> {
    T::deserialize(&mut Reader { rest: bytes, next: None, depth: DEPTH })
}

/// A scalar value, or the header of a list or a map.
#[derive(Clone, Copy)]
enum Token<'de> {
    Nil,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(&'de str),
    Bytes(&'de [u8]),
    Items(u32),
    Entries(u32),
}

impl Token<'_> {
    /// Interprets a name that was written as bytes as a string.
    fn as_name(self) -> Result<Self, Error> {
        match self {
            Self::Bytes(bytes) => std::str::from_utf8(bytes).map(Self::Text).map_err(|_| Error::Text),
            other => Ok(other),
        }
    }

    #[cold]
    fn instead_of(self, expected: &dyn Expected) -> Error {
        let found = match self {
            Self::Nil => Unexpected::Unit,
            Self::Bool(value) => Unexpected::Bool(value),
            Self::Unsigned(value) => Unexpected::Unsigned(value),
            Self::Signed(value) => Unexpected::Signed(value),
            Self::Float(value) => Unexpected::Float(value),
            Self::Text(_) => Unexpected::Other("a text"),
            Self::Bytes(_) => Unexpected::Other("bytes"),
            Self::Items(_) => Unexpected::Seq,
            Self::Entries(_) => Unexpected::Map,
        };
        de::Error::invalid_type(found, expected)
    }
}

struct Reader<'de> {
    rest: &'de [u8],
    /// A token that was peeked at.
    next: Option<Token<'de>>,
    /// Remaining nesting depth.
    depth: u16,
}

impl<'de> Reader<'de> {
    fn token(&mut self) -> Result<Token<'de>, Error> {
        if let Some(token) = self.next.take() {
            return Ok(token);
        }
        let [first] = self.array()?;
        Ok(match Marker::from_u8(first) {
            Marker::Null => Token::Nil,
            Marker::True => Token::Bool(true),
            Marker::False => Token::Bool(false),
            Marker::FixPos(value) => Token::Unsigned(value.into()),
            Marker::U8 => Token::Unsigned(u8::from_be_bytes(self.array()?).into()),
            Marker::U16 => Token::Unsigned(u16::from_be_bytes(self.array()?).into()),
            Marker::U32 => Token::Unsigned(u32::from_be_bytes(self.array()?).into()),
            Marker::U64 => Token::Unsigned(u64::from_be_bytes(self.array()?)),
            Marker::FixNeg(value) => Token::Signed(value.into()),
            Marker::I8 => Token::Signed(i8::from_be_bytes(self.array()?).into()),
            Marker::I16 => Token::Signed(i16::from_be_bytes(self.array()?).into()),
            Marker::I32 => Token::Signed(i32::from_be_bytes(self.array()?).into()),
            Marker::I64 => Token::Signed(i64::from_be_bytes(self.array()?)),
            Marker::F32 => Token::Float(f32::from_be_bytes(self.array()?).into()),
            Marker::F64 => Token::Float(f64::from_be_bytes(self.array()?)),
            Marker::FixStr(length) => self.text(length.into())?,
            Marker::Str8 | Marker::Str16 | Marker::Str32 => {
                let length = self.length(first - 0xd9)?;
                self.text(length)?
            }
            Marker::Bin8 | Marker::Bin16 | Marker::Bin32 => {
                let length = self.length(first - 0xc4)?;
                Token::Bytes(self.take(length)?)
            }
            Marker::FixArray(length) => Token::Items(length.into()),
            Marker::Array16 | Marker::Array32 => Token::Items(self.length(first - 0xdc + 1)?),
            Marker::FixMap(length) => Token::Entries(length.into()),
            Marker::Map16 | Marker::Map32 => Token::Entries(self.length(first - 0xde + 1)?),
            // Extension types, which no type of ours is serialized as, and the byte that MessagePack reserves.
            _ => return Err(Error::Marker(first)),
        })
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(Error::Short)?;
        self.rest = rest;
        Ok(*array)
    }

    /// A length of 2^`power` bytes: one, two or four.
    fn length(&mut self, power: u8) -> Result<u32, Error> {
        Ok(match power {
            0 => u8::from_be_bytes(self.array()?).into(),
            1 => u16::from_be_bytes(self.array()?).into(),
            _ => u32::from_be_bytes(self.array()?),
        })
    }

    fn take(&mut self, length: u32) -> Result<&'de [u8], Error> {
        let (taken, rest) = self.rest.split_at_checked(length as usize).ok_or(Error::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    fn text(&mut self, length: u32) -> Result<Token<'de>, Error> {
        std::str::from_utf8(self.take(length)?).map(Token::Text).map_err(|_| Error::Text)
    }

    /// Skips one value of any kind. Each token takes at least a byte, so a forged length cannot prolong the loop.
    fn skip(&mut self) -> Result<(), Error> {
        let mut left = 1;
        while left > 0 {
            left += match self.token()? {
                Token::Items(length) => u64::from(length),
                Token::Entries(length) => 2 * u64::from(length),
                _ => 0,
            };
            left -= 1;
        }
        Ok(())
    }

    fn deeper(&mut self) -> Result<(), Error> {
        self.depth = self.depth.checked_sub(1).ok_or(Error::Deep)?;
        Ok(())
    }

    fn visit_items<V: Visitor<'de>>(&mut self, length: u32, visitor: V) -> Result<V::Value, Error> {
        self.deeper()?;
        let mut items = Items { reader: self, left: length, bytes: false };
        let value = visitor.visit_seq(&mut items)?;
        items.end()?;
        self.depth += 1;
        Ok(value)
    }

    fn visit_entries<V: Visitor<'de>>(&mut self, length: u32, visitor: V) -> Result<V::Value, Error> {
        self.deeper()?;
        let mut entries = Items { reader: self, left: length, bytes: false };
        let value = visitor.visit_map(&mut entries)?;
        entries.end()?;
        self.depth += 1;
        Ok(value)
    }

    /// A list of small numbers may have been written as bytes.
    fn visit_bytes_as_items<V: Visitor<'de>>(&mut self, bytes: &'de [u8], visitor: V) -> Result<V::Value, Error> {
        let after = std::mem::replace(&mut self.rest, bytes);
        let mut items = Items { reader: self, left: bytes.len() as u32, bytes: true };
        let value = visitor.visit_seq(&mut items)?;
        items.end()?;
        self.rest = after;
        Ok(value)
    }

    fn visit_number<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Error> {
        match self.token()? {
            Token::Unsigned(value) => visitor.visit_u64(value),
            Token::Signed(value) => visitor.visit_i64(value),
            other => Err(other.instead_of(&visitor)),
        }
    }

    fn visit_float<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Error> {
        match self.token()? {
            Token::Float(value) => visitor.visit_f64(value),
            Token::Unsigned(value) => visitor.visit_u64(value),
            Token::Signed(value) => visitor.visit_i64(value),
            other => Err(other.instead_of(&visitor)),
        }
    }

    fn visit_list<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Error> {
        match self.token()? {
            Token::Items(length) => self.visit_items(length, visitor),
            Token::Bytes(bytes) => self.visit_bytes_as_items(bytes, visitor),
            other => Err(other.instead_of(&visitor)),
        }
    }

    /// Fields, as a map by name or as a list by position.
    fn visit_fields<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Error> {
        match self.token()? {
            Token::Items(length) => self.visit_items(length, visitor),
            Token::Entries(length) => self.visit_entries(length, visitor),
            other => Err(other.instead_of(&visitor)),
        }
    }
}

/// Forwards the methods for several number or list types to a single one.
macro_rules! forward {
    ($way:ident: $($method:ident($($argument:ty),*)),+) => {
        $(fn $method<V: Visitor<'de>>(self, $(_: $argument,)* visitor: V) -> Result<V::Value, Error> {
            self.$way(visitor)
        })+
    };
}

impl<'de> de::Deserializer<'de> for &mut Reader<'de> {
    type Error = Error;

    fn is_human_readable(&self) -> bool {
        false
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.token()? {
            Token::Nil => visitor.visit_unit(),
            Token::Bool(value) => visitor.visit_bool(value),
            Token::Unsigned(value) => visitor.visit_u64(value),
            Token::Signed(value) => visitor.visit_i64(value),
            Token::Float(value) => visitor.visit_f64(value),
            Token::Text(text) => visitor.visit_borrowed_str(text),
            Token::Bytes(bytes) => visitor.visit_borrowed_bytes(bytes),
            Token::Items(length) => self.visit_items(length, visitor),
            Token::Entries(length) => self.visit_entries(length, visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.token()? {
            Token::Bool(value) => visitor.visit_bool(value),
            other => Err(other.instead_of(&visitor)),
        }
    }

    forward!(visit_number: deserialize_u8(), deserialize_u16(), deserialize_u32(), deserialize_u64());
    forward!(visit_number: deserialize_i8(), deserialize_i16(), deserialize_i32(), deserialize_i64());
    forward!(visit_float: deserialize_f32(), deserialize_f64());
    forward!(visit_list: deserialize_seq(), deserialize_tuple(usize));
    forward!(visit_fields: deserialize_tuple_struct(&'static str, usize));
    forward!(visit_fields: deserialize_struct(&'static str, &'static [&'static str]));
    forward!(deserialize_str: deserialize_string(), deserialize_char());
    forward!(deserialize_bytes: deserialize_byte_buf());

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.token()? {
            Token::Text(text) => visitor.visit_borrowed_str(text),
            Token::Bytes(bytes) => visitor.visit_borrowed_bytes(bytes),
            other => Err(other.instead_of(&visitor)),
        }
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.token()?.as_name()? {
            Token::Text(name) => visitor.visit_borrowed_str(name),
            Token::Unsigned(place) => visitor.visit_u64(place),
            other => Err(other.instead_of(&visitor)),
        }
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.token()? {
            Token::Bytes(bytes) => visitor.visit_borrowed_bytes(bytes),
            Token::Text(text) => visitor.visit_borrowed_str(text),
            Token::Items(length) => self.visit_items(length, visitor),
            other => Err(other.instead_of(&visitor)),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.token()? {
            Token::Entries(length) => self.visit_entries(length, visitor),
            other => Err(other.instead_of(&visitor)),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.token()? {
            Token::Nil => visitor.visit_unit(),
            other => Err(other.instead_of(&visitor)),
        }
    }

    /// A unit struct is written as an empty list.
    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        match self.token()? {
            Token::Nil | Token::Items(0) => visitor.visit_unit(),
            other => Err(other.instead_of(&visitor)),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.token()? {
            Token::Nil => visitor.visit_none(),
            other => {
                self.next = Some(other);
                visitor.visit_some(self)
            }
        }
    }

    /// A variant with content is a map with one entry; any other is just its name.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let alone = match self.token()? {
            Token::Entries(1) => false,
            Token::Entries(length) => return Err(Error::Length(length)),
            name => {
                self.next = Some(name);
                true
            }
        };
        self.deeper()?;
        let value = visitor.visit_enum(Variant { reader: self, alone })?;
        self.depth += 1;
        Ok(value)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.skip()?;
        visitor.visit_unit()
    }
}

/// The remaining items of a list or a map.
struct Items<'a, 'de> {
    reader: &'a mut Reader<'de>,
    left: u32,
    /// Whether the items are plain bytes.
    bytes: bool,
}

impl Items<'_, '_> {
    fn end(&self) -> Result<(), Error> {
        if self.left == 0 { Ok(()) } else { Err(Error::Length(self.left)) }
    }

    /// Whether another item follows; consumes it from the count.
    fn more(&mut self) -> Result<bool, Error> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(false) };
        self.left = left;
        if self.bytes {
            let [byte] = self.reader.array()?;
            self.reader.next = Some(Token::Unsigned(byte.into()));
        }
        Ok(true)
    }
}

impl<'de> de::SeqAccess<'de> for Items<'_, 'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        if self.more()? { seed.deserialize(&mut *self.reader).map(Some) } else { Ok(None) }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left as usize)
    }
}

impl<'de> de::MapAccess<'de> for Items<'_, 'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        if self.more()? { seed.deserialize(&mut *self.reader).map(Some) } else { Ok(None) }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(&mut *self.reader)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left as usize)
    }
}

struct Variant<'a, 'de> {
    reader: &'a mut Reader<'de>,
    /// Whether the variant has no content.
    alone: bool,
}

impl<'a, 'de> Variant<'a, 'de> {
    fn content(self) -> Result<&'a mut Reader<'de>, Error> {
        if self.alone {
            return Err(de::Error::invalid_type(Unexpected::UnitVariant, &"a variant that holds something"));
        }
        Ok(self.reader)
    }
}

impl<'de> de::EnumAccess<'de> for Variant<'_, 'de> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Error> {
        let name = seed.deserialize(&mut *self.reader)?;
        Ok((name, self))
    }
}

impl<'de> de::VariantAccess<'de> for Variant<'_, 'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        if self.alone { Ok(()) } else { Deserialize::deserialize(self.reader) }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self.content()?)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.content()?.visit_fields(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value, Error> {
        self.content()?.visit_fields(visitor)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::collections::BTreeMap;
    use std::net::IpAddr;

    use proptest::prelude::*;
    use serde::de::DeserializeOwned;
    use serde::ser::{SerializeMap, Serializer};
    use serde::{Deserialize, Serialize};
    use uuid::Uuid;

    use super::{Error, de, from_slice, to_vec, to_vec_named};
    use crate::time::Timestamp;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Nothing;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Wrapped(u16);

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    enum Kind {
        Alone,
        One(Wrapped),
        Pair(u8, String),
        Named { of: Option<i32>, list: Vec<Kind> },
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(tag = "type", rename_all = "snake_case")]
    enum Tagged {
        Text { text: String },
        Number { number: i64, shown: Option<bool> },
    }

    /// One field for each form of type that this project derives serialization for.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct All {
        id: Uuid,
        at: Timestamp,
        numbers: (i8, i16, i32, i64, u8, u16, u32, u64),
        size: Option<Option<f64>>,
        letter: char,
        key: [u8; 32],
        map: BTreeMap<u64, Vec<Kind>>,
        from: IpAddr,
        answer: Result<(), String>,
        nothing: Nothing,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        later: Option<Box<Tagged>>,
        #[serde(flatten)]
        rest: BTreeMap<String, serde_json::Value>,
    }

    fn kind() -> impl Strategy<Value = Kind> {
        let leaf = prop_oneof![
            Just(Kind::Alone),
            any::<u16>().prop_map(|number| Kind::One(Wrapped(number))),
            (any::<u8>(), ".{0,40}").prop_map(|(number, text)| Kind::Pair(number, text)),
        ];
        leaf.prop_recursive(3, 12, 4, |inner| {
            (any::<Option<i32>>(), proptest::collection::vec(inner, 0..4))
                .prop_map(|(of, list)| Kind::Named { of, list })
        })
    }

    fn all() -> impl Strategy<Value = All> {
        let tagged = prop_oneof![
            ".{0,300}".prop_map(|text| Tagged::Text { text }),
            (any::<i64>(), any::<Option<bool>>()).prop_map(|(number, shown)| Tagged::Number { number, shown }),
        ];
        let numbers = any::<(i8, i16, i32, i64, u8, u16, u32, u64)>();
        let map = proptest::collection::btree_map(any::<u64>(), proptest::collection::vec(kind(), 0..20), 0..20);
        let few = (any::<u128>(), 0..4_102_444_800_i64, any::<char>(), any::<[u8; 32]>(), any::<bool>());
        (few, numbers, map, any::<IpAddr>(), proptest::option::of(tagged), any::<Option<f64>>()).prop_map(
            |((id, at, letter, key, right), numbers, map, from, later, size)| All {
                id: Uuid::from_u128(id),
                at: Timestamp::from_unix_seconds(at),
                numbers,
                size: size.map(Some),
                letter,
                key,
                map,
                from,
                answer: if right { Ok(()) } else { Err("no".into()) },
                nothing: Nothing,
                later: later.map(Box::new),
                rest: BTreeMap::from([("more".to_owned(), serde_json::json!([1, -1, null, { "a": 0.5 }]))]),
            },
        )
    }

    /// Both readers must return equal values or both must fail; only the library accepts extension types.
    fn judge<T: DeserializeOwned + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
        let foreign = |byte: &u8| matches!(byte, 0xc7..=0xc9 | 0xd4..=0xd8);
        match (from_slice::<T>(bytes), rmp_serde::from_slice::<T>(bytes)) {
            (Ok(ours), Ok(theirs)) => assert!(ours == theirs || format!("{ours:?}") == format!("{theirs:?}")),
            (Err(_), Err(_)) => {}
            (Err(Error::Text), Ok(_)) => {}
            (Err(_), Ok(_)) if bytes.iter().any(foreign) => {}
            (ours, theirs) => panic!("{ours:?} where the library reads {theirs:?}"),
        }
    }

    proptest! {
        #[test]
        fn what_the_library_writes_is_read_as_it_reads_it(value in all(), kind in kind()) {
            for bytes in [rmp_serde::to_vec(&kind).unwrap(), rmp_serde::to_vec_named(&kind).unwrap()] {
                prop_assert_eq!(from_slice::<Kind>(&bytes).unwrap(), kind.clone());
            }
            let named = rmp_serde::to_vec_named(&value).unwrap();
            prop_assert_eq!(format!("{:?}", from_slice::<All>(&named).unwrap()), format!("{value:?}"));
            judge::<All>(&named);
        }

        #[test]
        fn what_is_written_is_what_the_library_writes(value in all(), kind in kind()) {
            prop_assert_eq!(to_vec(&kind).unwrap(), rmp_serde::to_vec(&kind).unwrap());
            prop_assert_eq!(to_vec_named(&kind).unwrap(), rmp_serde::to_vec_named(&kind).unwrap());
            prop_assert_eq!(to_vec(&value).unwrap(), rmp_serde::to_vec(&value).unwrap());
            prop_assert_eq!(to_vec_named(&value).unwrap(), rmp_serde::to_vec_named(&value).unwrap());
        }

        #[test]
        fn damaged_bytes_are_refused_by_both_readers_or_by_none(
            value in all(),
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = rmp_serde::to_vec_named(&value).unwrap();
            judge::<All>(&bytes[..cut.index(bytes.len())]);
            let at = at.index(bytes.len());
            bytes[at] = byte;
            judge::<All>(&bytes);
        }

        #[test]
        fn foreign_bytes_are_an_error_and_never_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            judge::<Kind>(&bytes);
            judge::<Tagged>(&bytes);
            judge::<All>(&bytes);
        }
    }

    #[test]
    fn bytes_and_what_nobody_counted_are_written_as_the_library_writes_them() {
        struct Odd(Vec<u8>);
        impl Serialize for Odd {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self.0.len() % 3 {
                    0 => serializer.serialize_bytes(&self.0),
                    1 => serializer.collect_seq(self.0.iter().filter(|byte| **byte > 0)),
                    _ => {
                        let mut map = serializer.serialize_map(None)?;
                        for (place, byte) in self.0.iter().enumerate() {
                            map.serialize_entry(&place, byte)?;
                        }
                        map.end()
                    }
                }
            }
        }
        for length in [0, 1, 2, 15, 16, 17, 255, 256, 257, 65_535, 65_536, 65_537] {
            let odd = Odd(vec![7; length]);
            assert!(to_vec(&odd).unwrap() == rmp_serde::to_vec(&odd).unwrap(), "of {length}");
        }
        let rest = (1.5_f32, (), -33_i8, Some(()), "a text of more than thirty-one bytes");
        assert_eq!(to_vec(&rest).unwrap(), rmp_serde::to_vec(&rest).unwrap());
    }

    #[test]
    fn bytes_are_borrowed_and_lists_of_numbers_may_be_written_as_bytes() {
        let bytes = [0xc4, 3, 7, 8, 255];
        assert_eq!(from_slice::<Vec<u8>>(&bytes), Ok(vec![7, 8, 255]));
        assert_eq!(from_slice::<[u8; 3]>(&bytes), Ok([7, 8, 255]));
        assert_eq!(from_slice::<[u8; 2]>(&bytes), Err(Error::Length(1)));
        assert_eq!(from_slice::<&[u8]>(&bytes), Ok(&bytes[2..]));
        assert_eq!(from_slice::<&str>(&[0xa2, b'h', b'i', 0xff]), Ok("hi"));
    }

    #[test]
    fn what_nests_without_end_is_refused_and_what_is_ignored_may_nest() {
        #[derive(Debug, Deserialize)]
        struct Nested(#[allow(dead_code, reason = "only its depth counts")] Vec<Nested>);
        let mut deep = vec![0x91; 1 << 20];
        assert_eq!(from_slice::<Nested>(&deep).unwrap_err(), Error::Deep);
        deep.push(0xc0);
        from_slice::<de::IgnoredAny>(&deep).unwrap();
        assert!(from_slice::<de::IgnoredAny>(&deep[..deep.len() - 1]).is_err());
        assert_eq!(from_slice::<Vec<u8>>(&[0xdd, 0xff, 0xff, 0xff, 0xff]), Err(Error::Short));
    }
}
