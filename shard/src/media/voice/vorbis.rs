//! Estimates from its headers how much memory a Vorbis decoder would take, before there is one. A codebook of a few
//! bytes may stand for 16 MiB of numbers, and a header has up to 256 of them.

/// Length of the identification header, and the beginning of the setup header behind it.
const IDENTIFICATION: usize = 30;
const SETUP: &[u8] = b"\x05vorbis";

/// The beginning of a codebook.
const SYNC: u32 = 0x56_43_42;

/// Maximum bytes of all codebooks together. Those that encoders write take some hundred KiB.
const MOST: u64 = 32 << 20;

/// Bytes that a codeword takes besides its numbers, in the lookup tables.
const CODEWORD: u64 = 32;

/// Whether a decoder with these headers stays within bounds; false if they are no such headers.
pub fn is_bounded(headers: &[u8]) -> bool {
    let setup = headers.get(IDENTIFICATION..).and_then(|setup| setup.strip_prefix(SETUP));
    setup.and_then(|setup| codebooks(&mut Bits::of(setup))).is_some()
}

/// Bytes that the codebooks take (parsed by the specification Vorbis I); `None` if they are damaged, or take too much.
fn codebooks(bits: &mut Bits<'_>) -> Option<u64> {
    let mut taken = 0;
    for _ in 0..=bits.read(8)? {
        taken += codebook(bits)?;
        if taken > MOST {
            return None;
        }
    }
    Some(taken)
}

fn codebook(bits: &mut Bits<'_>) -> Option<u64> {
    if bits.read(24)? != SYNC {
        return None;
    }
    let (dimensions, entries) = (bits.read(16)?, bits.read(24)?);
    let is_ordered = bits.read(1)? == 1;
    if is_ordered {
        bits.read(5)?;
        let mut entry = 0;
        while entry < entries {
            entry += bits.read(u32::BITS - (entries - entry).leading_zeros())?;
        }
        if entry > entries {
            return None;
        }
    } else if bits.read(1)? == 1 {
        for _ in 0..entries {
            if bits.read(1)? == 1 {
                bits.read(5)?;
            }
        }
    } else {
        bits.skip(u64::from(entries) * 5)?;
    }
    let numbers = u64::from(entries) * u64::from(dimensions);
    let kept = match bits.read(4)? {
        0 => 0,
        kind @ (1 | 2) => {
            bits.skip(64)?;
            let width = u64::from(bits.read(4)?) + 1;
            bits.skip(1)?;
            let stored = if kind == 1 { side(entries, dimensions) } else { numbers };
            bits.skip(stored.checked_mul(width)?)?;
            numbers
        }
        _ => return None,
    };
    Some(kept * size_of::<f32>() as u64 + u64::from(entries) * CODEWORD)
}

/// The largest number whose power by `dimensions` is not larger than `entries`.
fn side(entries: u32, dimensions: u32) -> u64 {
    let fits = |side: &u64| side.checked_pow(dimensions).is_some_and(|power| power <= u64::from(entries));
    match dimensions {
        0 => 0,
        1 => u64::from(entries),
        _ => (1..).take_while(fits).last().unwrap_or(0),
    }
}

/// Reads bits of a header, the lowest of each byte first.
struct Bits<'a> {
    bytes: &'a [u8],
    at: u64,
}

impl<'a> Bits<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Reads at most 32 bits as a number.
    fn read(&mut self, count: u32) -> Option<u32> {
        let mut number = 0;
        for place in 0..count {
            let byte = self.bytes.get(usize::try_from(self.at / 8).ok()?)?;
            number |= u32::from((byte >> (self.at % 8)) & 1) << place;
            self.at += 1;
        }
        Some(number)
    }

    fn skip(&mut self, count: u64) -> Option<()> {
        self.at = self.at.checked_add(count).filter(|at| *at <= self.bytes.len() as u64 * 8)?;
        Some(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    /// Writes headers bit by bit.
    #[derive(Default)]
    struct Writer(Vec<bool>);

    impl Writer {
        fn put(&mut self, count: u32, number: u32) {
            self.0.extend((0..count).map(|place| (number >> place) & 1 == 1));
        }

        /// A codebook with a number for each entry and dimension, whose codewords all have the same length.
        fn codebook(&mut self, dimensions: u32, length: u32) {
            let entries = 1 << length;
            [(24, SYNC), (16, dimensions), (24, entries), (1, 1), (5, length - 1)]
                .into_iter()
                .for_each(|(count, number)| self.put(count, number));
            // All entries at once.
            self.put(length + 1, entries);
            [(4, 1), (32, 0), (32, 0), (4, 0), (1, 0)].into_iter().for_each(|(count, number)| self.put(count, number));
            self.put(side(entries, dimensions) as u32, 0);
        }

        fn headers(self) -> Vec<u8> {
            let bytes =
                self.0.chunks(8).map(|bits| bits.iter().rev().fold(0, |byte, bit| (byte << 1) | u8::from(*bit)));
            [&[0; IDENTIFICATION][..], SETUP].concat().into_iter().chain(bytes).collect()
        }
    }

    fn with_codebooks(count: u32, dimensions: u32, length: u32) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.put(8, count - 1);
        (0..count).for_each(|_| writer.codebook(dimensions, length));
        writer.headers()
    }

    #[test]
    fn headers_of_a_few_kibibytes_that_stand_for_gigabytes_are_refused() {
        let bomb = with_codebooks(256, 32, 17);
        assert!(bomb.len() < 8 << 10, "{}", bomb.len());
        assert!(!is_bounded(&bomb));
        assert!(!is_bounded(&with_codebooks(2, 32, 17)));
        assert!(is_bounded(&with_codebooks(1, 32, 17)));
        // As many as encoders write, and as large.
        assert!(is_bounded(&with_codebooks(64, 8, 8)));
    }

    #[test]
    fn what_is_cut_off_or_no_header_is_refused() {
        let whole = with_codebooks(3, 2, 4);
        assert!(is_bounded(&whole));
        assert!((0..whole.len() - 1).all(|length| !is_bounded(&whole[..length])));
        let mut damaged = whole;
        damaged[IDENTIFICATION + SETUP.len() + 1] ^= 1;
        assert!(!is_bounded(&damaged));
    }

    #[test]
    fn the_side_of_a_table_is_the_largest_that_fits() {
        for (entries, dimensions, expected) in
            [(16, 2, 4), (15, 2, 3), (1 << 17, 32, 1), (7, 1, 7), (0, 3, 0), (5, 0, 0)]
        {
            assert_eq!(side(entries, dimensions), expected, "{entries} {dimensions}");
        }
    }
}
