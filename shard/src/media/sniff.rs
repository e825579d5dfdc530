//! The type of bytes, by their beginning.

/// How many bytes of the beginning are examined.
pub const HEAD: usize = 4096;

/// Maximum length of a MIME type.
pub const LONGEST_MIME: usize = 255;

/// [`is_mime_type`] as a regular expression.
pub const MIME_PATTERN: &str = "^ *[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+ *(;[ -~]*)?$";

/// The type of bytes of which nothing more is known.
pub const UNKNOWN: &str = "application/octet-stream";

/// The type that the bytes themselves show.
pub fn sniff(head: &[u8]) -> Option<&'static str> {
    if is_svg(head) { Some("image/svg+xml") } else { infer::get(head).map(|kind| kind.mime_type()) }
}

/// The type of an upload: that of the bytes if they show one, else the declared one. For a container, a declaration of
/// its content says more.
pub fn settle(head: &[u8], declared: Option<&str>) -> String {
    match (sniff(head), declared) {
        (Some(sniffed), Some(declared)) if says_more(declared, sniffed) => declared.to_owned(),
        (Some(sniffed), _) => sniffed.to_owned(),
        (None, Some(declared)) => declared.to_owned(),
        (None, None) => UNKNOWN.to_owned(),
    }
}

fn says_more(declared: &str, sniffed: &str) -> bool {
    let declared = essence(declared);
    // The declaration may be the type that was found, with parameters such as a codec.
    if declared.eq_ignore_ascii_case(sniffed) {
        return true;
    }
    let family = |of: &str| declared.get(..of.len()).is_some_and(|start| start.eq_ignore_ascii_case(of));
    match sniffed {
        // Office documents, e-books and the like.
        "application/zip" | "application/x-ole-storage" | "application/gzip" => family("application/"),
        "text/xml" => family("application/") || family("text/"),
        // Containers of video and audio, or of audio alone.
        "video/mp4" | "video/webm" | "video/quicktime" | "video/x-matroska" | "application/ogg" | "audio/ogg"
        | "audio/opus" => family("audio/") || family("video/"),
        "audio/m4a" | "audio/mpeg" | "audio/aac" | "audio/x-wav" | "audio/x-flac" => family("audio/"),
        _ => false,
    }
}

/// A MIME type without its parameters.
pub fn essence(mime_type: &str) -> &str {
    mime_type.split(';').next().unwrap_or_default().trim()
}

/// `type/subtype` of at most 255 characters, with or without parameters.
pub fn is_mime_type(text: &str) -> bool {
    let token = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte))
    };
    let well_formed = essence(text).split_once('/').is_some_and(|(kind, subtype)| token(kind) && token(subtype));
    text.len() <= LONGEST_MIME && well_formed && text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

/// Whether a browser would run content of this type: it is served as [`UNKNOWN`] instead.
pub fn is_active(mime_type: &str) -> bool {
    let essence = essence(mime_type).to_ascii_lowercase();
    matches!(essence.as_str(), "text/html" | "application/xhtml+xml" | "image/svg+xml")
}

/// Whether a WebP picture is animated; `None` if it is no WebP at all.
pub fn webp_is_animated(head: &[u8]) -> Option<bool> {
    let webp = head.get(..4) == Some(b"RIFF") && head.get(8..12) == Some(b"WEBP");
    // The second bit of the extended header's flags.
    webp.then(|| head.get(12..16) == Some(b"VP8X") && head.get(20).is_some_and(|flags| flags & 0b10 != 0))
}

fn is_svg(head: &[u8]) -> bool {
    let head = head.strip_prefix("\u{feff}".as_bytes()).unwrap_or(head);
    let text = head.trim_ascii_start();
    let has = |tag: &[u8]| text.windows(tag.len()).any(|window| window.eq_ignore_ascii_case(tag));
    text.first() == Some(&b'<') && has(b"<svg") && !has(b"<html")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    const ZIP: &[u8] = b"PK\x03\x04\x14\0\0\0\0\0";

    #[test]
    fn the_bytes_win_unless_the_declaration_says_more() {
        let table: [(&[u8], Option<&str>, &str); 11] = [
            (PNG, None, "image/png"),
            (PNG, Some("image/jpeg"), "image/png"),
            (PNG, Some("text/plain"), "image/png"),
            (b"hello", Some("text/plain; charset=utf-8"), "text/plain; charset=utf-8"),
            (b"hello", None, UNKNOWN),
            (ZIP, Some("application/epub+zip"), "application/epub+zip"),
            (ZIP, Some("image/png"), "application/zip"),
            (b"OggS\0\x02\0\0\0\0\0\0", Some("audio/ogg; codecs=opus"), "audio/ogg; codecs=opus"),
            (b"<!DOCTYPE html><p>", Some("image/png"), "text/html"),
            (b"  <?xml version=\"1.0\"?><SVG xmlns=\"x\">", Some("image/png"), "image/svg+xml"),
            (b"<svg onload=alert(1)>", None, "image/svg+xml"),
        ];
        for (head, declared, settled) in table {
            assert_eq!(settle(head, declared), settled, "{declared:?}");
        }
    }

    #[test]
    fn what_a_browser_would_run_is_known() {
        for active in ["text/html", "Text/HTML; charset=x", "image/svg+xml", "application/xhtml+xml"] {
            assert!(is_active(active), "{active}");
        }
        assert!(!is_active("image/png") && !is_active("application/pdf"));
    }

    #[test]
    fn mime_types_have_two_parts() {
        for good in ["image/png", "audio/ogg; codecs=opus", "application/vnd.oasis.opendocument.text"] {
            assert!(is_mime_type(good), "{good}");
        }
        for bad in ["", "image", "/png", "image/", "a b/c", "image/png\r\nx: y", &format!("a/{}", "b".repeat(255))] {
            assert!(!is_mime_type(bad), "{bad}");
        }
    }

    #[test]
    fn a_moving_webp_is_told_from_a_still_one() {
        let webp = |chunk: &[u8; 4], flags: u8| [b"RIFF\0\0\0\0WEBP", &chunk[..], &[0, 0, 0, 0, flags]].concat();
        assert_eq!(webp_is_animated(&webp(b"VP8X", 0b10)), Some(true));
        assert_eq!(webp_is_animated(&webp(b"VP8X", 0b10000)), Some(false));
        assert_eq!(webp_is_animated(&webp(b"VP8 ", 0xff)), Some(false));
        assert_eq!(webp_is_animated(PNG), None);
    }
}
