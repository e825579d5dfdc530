//! Finds where the head of a connection's first request ends, from the bytes alone. A connection that has sent a whole
//! head counts as proven. The HTTP server checks whether the head is well formed.

/// The client connection preface of HTTP/2 (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Frame types and a frame flag of HTTP/2 (RFC 9113, section 6).
const HEADERS: u8 = 0x1;
const CONTINUATION: u8 = 0x9;
const END_HEADERS: u8 = 0x4;

/// How far the first head was read.
#[derive(Clone, Copy, Debug)]
pub enum FirstHead {
    /// How many bytes of [`PREFACE`] have come.
    Preface(usize),
    /// In a line of HTTP/1. A blank line ends the head, except before the request line.
    Line { is_first: bool, is_blank: bool },
    /// In the 9-byte header of an HTTP/2 frame, of which `read` bytes have come.
    FrameHead { head: [u8; 9], read: usize },
    /// In the payload of a frame, of which `left` bytes are still to come.
    Frame { left: usize, ends_head: bool },
}

impl FirstHead {
    pub const BEGIN: Self = Self::Preface(0);
    const NEXT_FRAME: Self = Self::FrameHead { head: [0; 9], read: 0 };

    /// Reads the next bytes. Returns whether the head ends in them; must not be called again after that.
    pub fn ends_in(&mut self, bytes: &[u8]) -> bool {
        bytes.iter().any(|byte| self.ends_with(*byte))
    }

    fn ends_with(&mut self, byte: u8) -> bool {
        let (next, ends) = match *self {
            Self::Preface(read) if PREFACE[read] != byte => {
                *self = Self::Line { is_first: true, is_blank: read == 0 };
                return self.ends_with(byte);
            }
            Self::Preface(read) if read + 1 < PREFACE.len() => (Self::Preface(read + 1), false),
            Self::Preface(_) => (Self::NEXT_FRAME, false),
            Self::Line { is_first, is_blank: true } if byte == b'\n' => (*self, !is_first),
            Self::Line { .. } if byte == b'\n' => (Self::Line { is_first: false, is_blank: true }, false),
            Self::Line { .. } if byte == b'\r' => (*self, false),
            Self::Line { is_first, .. } => (Self::Line { is_first, is_blank: false }, false),
            Self::FrameHead { mut head, read } => {
                head[read] = byte;
                if read + 1 < head.len() {
                    (Self::FrameHead { head, read: read + 1 }, false)
                } else {
                    let [high, middle, low, kind, flags, ..] = head;
                    let left = u32::from_be_bytes([0, high, middle, low]) as usize;
                    Self::in_frame(left, matches!(kind, HEADERS | CONTINUATION) && flags & END_HEADERS != 0)
                }
            }
            Self::Frame { left, ends_head } => Self::in_frame(left - 1, ends_head),
        };
        *self = next;
        ends
    }

    /// The state with `left` bytes of a frame's payload to come, which may be zero.
    fn in_frame(left: usize, ends_head: bool) -> (Self, bool) {
        if left > 0 { (Self::Frame { left, ends_head }, false) } else { (Self::NEXT_FRAME, ends_head) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After how many bytes the head ends, whether they come one by one or at once.
    fn end_of(bytes: &[u8]) -> Option<usize> {
        let mut one_by_one = FirstHead::BEGIN;
        let end = bytes.iter().position(|byte| one_by_one.ends_in(&[*byte])).map(|last| last + 1);
        let mut at_once = FirstHead::BEGIN;
        assert_eq!(at_once.ends_in(bytes), end.is_some());
        end
    }

    fn frame(kind: u8, flags: u8, content: &[u8]) -> Vec<u8> {
        let length = (content.len() as u32).to_be_bytes();
        [&length[1..], &[kind, flags, 0, 0, 0, 1], content].concat()
    }

    #[test]
    fn a_head_of_http_1_ends_with_its_first_blank_line() {
        let whole: [&[u8]; 5] = [
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            b"GET / HTTP/1.1\nHost: x\n\n",
            b"\r\n\r\nGET / HTTP/1.0\r\n\r\n",
            b"P / HTTP/1.1\r\n\r\n",
            b"PRI * HTTP/1.1\r\nHost: x\r\n\r\n",
        ];
        for head in whole {
            let text = String::from_utf8_lossy(head);
            assert_eq!(end_of(head), Some(head.len()), "{text:?}");
            assert_eq!(end_of(&head[..head.len() - 1]), None, "{text:?}");
            assert_eq!(end_of(&[head, b"body\r\n\r\n"].concat()), Some(head.len()), "{text:?}");
        }
        for part in [&b""[..], b"G", b"\r\n\r\n\r\n", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n\r"] {
            assert_eq!(end_of(part), None, "{:?}", String::from_utf8_lossy(part));
        }
    }

    #[test]
    fn a_head_of_http_2_ends_with_the_frame_that_says_so() {
        let preface = [PREFACE, &frame(0x4, 0, &[0; 18]), &frame(0x4, 0x1, &[]), &frame(0x8, 0, &[0; 4])].concat();
        assert_eq!(end_of(&preface), None, "settings and windows are no request");
        let ping = frame(0x6, END_HEADERS, b"\r\n\r\n\r\n\r\n");
        assert_eq!(end_of(&[&preface[..], &ping].concat()), None, "another frame's flag means something else");
        let headers = [&preface[..], &frame(HEADERS, END_HEADERS, b"GET")].concat();
        assert_eq!(end_of(&headers), Some(headers.len()));
        assert_eq!(end_of(&headers[..headers.len() - 1]), None);
        let begun = [&preface[..], &frame(HEADERS, 0, b"GET"), &frame(CONTINUATION, 0, &[])].concat();
        assert_eq!(end_of(&begun), None);
        let ended = [&begun[..], &frame(CONTINUATION, END_HEADERS, &[])].concat();
        assert_eq!(end_of(&ended), Some(ended.len()));
    }
}
