//! The writer: a single implementation for all values. The library's is compiled again for each kind of sink, for lists
//! of unknown length, and to detect lists of bytes.

use rmp::Marker;
use rmp::encode::{self, ValueWriteError};
use serde::ser::{self, Serialize};

use super::Error;

impl ser::Error for Error {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self::Mismatch(message.to_string().into())
    }
}

/// A full sink, which cannot happen with memory.
impl From<ValueWriteError> for Error {
    fn from(error: ValueWriteError) -> Self {
        Self::Mismatch(error.to_string().into())
    }
}

/// Serializes a value without field names.
///
/// # Errors
/// Those of the value's `Serialize` implementation; plain fields have none.
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    append(&mut out, value)?;
    Ok(out)
}

/// Like [`to_vec`], with field names.
///
/// # Errors
/// See [`to_vec`].
pub fn to_vec_named<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    append_named(&mut out, value)?;
    Ok(out)
}

/// Like [`to_vec`], appending to `out`.
///
/// # Errors
/// See [`to_vec`].
pub fn append<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<(), Error> {
    value.serialize(&mut Writer { out, named: false })
}

/// Like [`to_vec_named`], appending to `out`.
///
/// # Errors
/// See [`to_vec`].
pub fn append_named<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<(), Error> {
    value.serialize(&mut Writer { out, named: true })
}

struct Writer<'o> {
    out: &'o mut Vec<u8>,
    /// Whether field names are written.
    named: bool,
}

impl Writer<'_> {
    fn items(&mut self, length: usize) -> Result<(), Error> {
        encode::write_array_len(self.out, length as u32)?;
        Ok(())
    }

    fn entries(&mut self, length: usize) -> Result<(), Error> {
        encode::write_map_len(self.out, length as u32)?;
        Ok(())
    }

    /// Starts a variant with content: a map with one entry.
    fn variant(&mut self, name: &'static str) -> Result<(), Error> {
        self.entries(1)?;
        encode::write_str(self.out, name)?;
        Ok(())
    }
}

/// Types that `rmp` can encode, and small numbers, which are written as larger ones.
macro_rules! plain {
    ($($method:ident($value:ty) by $write:ident),+) => {
        $(fn $method(self, value: $value) -> Result<(), Error> {
            encode::$write(self.out, value)?;
            Ok(())
        })+
    };
    ($($method:ident($value:ty) as $wide:ident),+) => {
        $(fn $method(self, value: $value) -> Result<(), Error> {
            self.$wide(value.into())
        })+
    };
}

impl<'a, 'o> ser::Serializer for &'a mut Writer<'o> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Series<'a, 'o>;
    type SerializeTuple = Series<'a, 'o>;
    type SerializeTupleStruct = Series<'a, 'o>;
    type SerializeTupleVariant = Series<'a, 'o>;
    type SerializeMap = Series<'a, 'o>;
    type SerializeStruct = Series<'a, 'o>;
    type SerializeStructVariant = Series<'a, 'o>;

    fn is_human_readable(&self) -> bool {
        false
    }

    plain!(serialize_i64(i64) by write_sint, serialize_u64(u64) by write_uint);
    plain!(serialize_f32(f32) by write_f32, serialize_f64(f64) by write_f64);
    plain!(serialize_str(&str) by write_str, serialize_bytes(&[u8]) by write_bin);
    plain!(serialize_i8(i8) as serialize_i64, serialize_i16(i16) as serialize_i64, serialize_i32(i32) as serialize_i64);
    plain!(serialize_u8(u8) as serialize_u64, serialize_u16(u16) as serialize_u64, serialize_u32(u32) as serialize_u64);

    fn serialize_bool(self, value: bool) -> Result<(), Error> {
        self.out.push(if value { Marker::True } else { Marker::False }.to_u8());
        Ok(())
    }

    fn serialize_char(self, value: char) -> Result<(), Error> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        self.out.push(Marker::Null.to_u8());
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Error> {
        self.items(0)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Error> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        self.variant(variant)?;
        value.serialize(self)
    }

    fn serialize_seq(self, length: Option<usize>) -> Result<Series<'a, 'o>, Error> {
        length.map(|length| self.items(length)).transpose()?;
        Ok(Series::of(self, length))
    }

    fn serialize_map(self, length: Option<usize>) -> Result<Series<'a, 'o>, Error> {
        length.map(|length| self.entries(length)).transpose()?;
        Ok(Series::of(self, length))
    }

    fn serialize_tuple(self, length: usize) -> Result<Series<'a, 'o>, Error> {
        self.serialize_seq(Some(length))
    }

    fn serialize_tuple_struct(self, _: &'static str, length: usize) -> Result<Series<'a, 'o>, Error> {
        self.serialize_seq(Some(length))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Series<'a, 'o>, Error> {
        self.variant(variant)?;
        self.serialize_seq(Some(length))
    }

    fn serialize_struct(self, _: &'static str, length: usize) -> Result<Series<'a, 'o>, Error> {
        if self.named { self.serialize_map(Some(length)) } else { self.serialize_seq(Some(length)) }
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        _: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Series<'a, 'o>, Error> {
        self.variant(variant)?;
        self.serialize_struct(name, length)
    }
}

/// Serializes the items of a list or a map.
struct Series<'a, 'o> {
    writer: &'a mut Writer<'o>,
    /// Start offset and number of the items, if the length was not known in advance.
    counted: Option<(usize, usize)>,
}

impl<'a, 'o> Series<'a, 'o> {
    fn of(writer: &'a mut Writer<'o>, length: Option<usize>) -> Self {
        let counted = length.is_none().then_some((writer.out.len(), 0));
        Self { writer, counted }
    }

    fn put<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        if let Some((_, count)) = &mut self.counted {
            *count += 1;
        }
        value.serialize(&mut *self.writer)
    }

    /// Inserts the length before the items if it was not known in advance.
    fn close(self, is_map: bool) -> Result<(), Error> {
        let Some((begin, count)) = self.counted else { return Ok(()) };
        let values = self.writer.out.split_off(begin);
        match is_map {
            true => self.writer.entries(count / 2)?,
            false => self.writer.items(count)?,
        }
        self.writer.out.extend_from_slice(&values);
        Ok(())
    }
}

macro_rules! series {
    ($($series:ident: $($method:ident)+, is_map: $is_map:literal;)+) => {
        $(impl ser::$series for Series<'_, '_> {
            type Ok = ();
            type Error = Error;

            $(fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.put(value)
            })+

            fn end(self) -> Result<(), Error> {
                self.close($is_map)
            }
        })+
    };
}

series! {
    SerializeSeq: serialize_element, is_map: false;
    SerializeTuple: serialize_element, is_map: false;
    SerializeTupleStruct: serialize_field, is_map: false;
    SerializeTupleVariant: serialize_field, is_map: false;
    SerializeMap: serialize_key serialize_value, is_map: true;
}

macro_rules! fields {
    ($($series:ident),+) => {
        $(impl ser::$series for Series<'_, '_> {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Error> {
                if self.writer.named {
                    encode::write_str(self.writer.out, key)?;
                }
                self.put(value)
            }

            fn end(self) -> Result<(), Error> {
                Ok(())
            }
        })+
    };
}

fields!(SerializeStruct, SerializeStructVariant);
