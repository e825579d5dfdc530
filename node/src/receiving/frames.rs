//! Parser of the event stream's frames (WHATWG server-sent events), which arrive in arbitrary pieces.

use anyhow::bail;

/// Maximum number of bytes of an incomplete frame: the largest envelope and the framing around it.
const LARGEST: usize = 2 * model::event::LARGEST_ENVELOPE;

/// A frame with data. Comments and frames without data are skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    pub event: String,
    pub id: Option<String>,
    pub data: String,
}

/// Parser state: bytes of an incomplete line, and the lines of an incomplete frame.
#[derive(Default)]
pub struct Frames {
    rest: Vec<u8>,
    frame: Frame,
    /// The gateway's name for the stream: a ULID of the time at which it began.
    stream: Option<String>,
}

impl Frames {
    /// The gateway's name for the stream, once its first line has arrived.
    pub fn stream(&self) -> Option<&str> {
        self.stream.as_deref()
    }

    /// Returns the frames that these bytes complete.
    ///
    /// # Errors
    /// A frame is larger than any of the gateway's, so something else is answering.
    pub fn take(&mut self, bytes: &[u8]) -> anyhow::Result<Vec<Frame>> {
        self.rest.extend_from_slice(bytes);
        let mut whole = Vec::new();
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\n', '\r']);
            if line.is_empty() {
                let frame = std::mem::take(&mut self.frame);
                whole.extend(Some(frame).filter(|frame| !frame.data.is_empty()));
            } else {
                self.line(line);
            }
        }
        if self.rest.len() + self.frame.data.len() > LARGEST {
            bail!("a frame has more than {LARGEST} bytes");
        }
        Ok(whole)
    }

    fn line(&mut self, line: &str) {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.frame.event),
            "id" => self.frame.id = Some(value.to_owned()),
            "data" if self.frame.data.is_empty() => value.clone_into(&mut self.frame.data),
            "data" => {
                self.frame.data.push('\n');
                self.frame.data.push_str(value);
            }
            // The stream starts with the comment `: connected 01JG...`.
            "" if self.stream.is_none() => self.stream = value.strip_prefix("connected ").map(str::to_owned),
            // Other comments are keep-alives, and `retry` does not matter here.
            _ => {}
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    const STREAM: &str = concat!(
        ": connected 01JG\nretry: 3000\n\n",
        "id: evt_1\nevent: message.sent\ndata: {\"a\":\"\u{e4}\"}\n\n",
        ": ping 1\n\n",
        "event: stream.closing\ndata: {\"reason\":\"drain\"}\n\n",
    );

    #[test]
    fn frames_come_whole_however_they_are_cut() {
        for size in 1..STREAM.len() {
            let mut frames = Frames::default();
            let found: Vec<Frame> =
                STREAM.as_bytes().chunks(size).flat_map(|piece| frames.take(piece).unwrap()).collect();
            let event = |event: &str, id: Option<&str>, data: &str| Frame {
                event: event.to_owned(),
                id: id.map(str::to_owned),
                data: data.to_owned(),
            };
            let expected = [
                event("message.sent", Some("evt_1"), "{\"a\":\"\u{e4}\"}"),
                event("stream.closing", None, r#"{"reason":"drain"}"#),
            ];
            assert_eq!(found, expected, "{size}");
            assert_eq!(frames.stream(), Some("01JG"), "{size}");
        }
    }

    #[test]
    fn a_frame_without_an_end_is_refused() {
        let mut frames = Frames::default();
        frames.take(&b"x".repeat(LARGEST)).unwrap();
        assert!(frames.take(b"x").is_err());
        let mut frames = Frames::default();
        let line = [b"data: ".as_slice(), &b"x".repeat(LARGEST), b"\n"].concat();
        frames.take(&line).unwrap();
        assert!(frames.take(b"y").is_err());
    }
}
