#![allow(clippy::unwrap_used, reason = "a test")]

use std::f64::consts::PI;
use std::io::Cursor;

use ropus::{Channels, DecodeMode};

use super::*;

/// A wave file of a tone.
fn wave(rate: u32, channels: u16, milliseconds: u32) -> Vec<u8> {
    let frames = (u64::from(rate) * u64::from(milliseconds) / 1_000) as u32;
    let size = frames * u32::from(channels) * 2;
    let mut file = [b"RIFF".as_slice(), &(36 + size).to_le_bytes(), b"WAVEfmt ", &16u32.to_le_bytes()].concat();
    file.extend([1u16, channels].iter().flat_map(|number| number.to_le_bytes()));
    file.extend([rate, rate * u32::from(channels) * 2].iter().flat_map(|number| number.to_le_bytes()));
    file.extend([channels * 2, 16].iter().flat_map(|number| number.to_le_bytes()));
    file.extend([b"data".as_slice(), &size.to_le_bytes()].concat());
    for frame in 0..frames {
        let tone = (2.0 * PI * 440.0 * f64::from(frame) / f64::from(rate)).sin();
        let sample = ((tone * 12_000.0) as i16).to_le_bytes();
        file.extend(sample.repeat(usize::from(channels)));
    }
    file
}

async fn spool(folder: &Path) -> Spool {
    crate::media::spool::tests::spool(folder).await
}

async fn convert(bytes: &[u8]) -> Result<(Voice, Vec<u8>), VoiceError> {
    convert_by(&Converter::new(), bytes).await
}

async fn convert_by(converter: &Converter, bytes: &[u8]) -> Result<(Voice, Vec<u8>), VoiceError> {
    let folder = tempfile::tempdir().unwrap();
    let mut source = spool(folder.path()).await;
    source.write(bytes).await.unwrap();
    let source = source.finish().await.unwrap();
    let spool = spool(folder.path()).await;
    let voice = converter.convert(CustomerId::random(), &source, spool).await?;
    assert_eq!(length_of(&voice.spooled).await, Some(voice.seconds));
    let made = std::fs::read(voice.spooled.path()).unwrap();
    Ok((voice, made))
}

/// The packets of an Ogg file with the position of the page that each ends on.
fn packets(file: Vec<u8>) -> Vec<ogg::Packet> {
    let mut reader = ogg::PacketReader::new(Cursor::new(file));
    std::iter::from_fn(|| reader.read_packet().unwrap()).collect()
}

fn is_fault(result: Result<(Voice, Vec<u8>), VoiceError>, code: IssueCode) -> bool {
    matches!(result, Err(VoiceError::Unfit(violation)) if violation.code == code)
}

#[tokio::test]
async fn a_wave_becomes_opus_in_ogg_of_its_length_and_its_tone() {
    for (rate, channels, milliseconds, seconds) in
        [(44_100, 2, 2_500, 3), (48_000, 1, 1_000, 1), (8_000, 1, 3_210, 3), (16_000, 2, 40, 1)]
    {
        let (voice, made) = convert(&wave(rate, channels, milliseconds)).await.unwrap();
        assert_eq!(voice.seconds, seconds);
        let length = u64::from(milliseconds) * 48;
        let bits = made.len() as u64 * 8_000 / u64::from(milliseconds);
        assert!(milliseconds < 1_000 || (10_000..50_000).contains(&bits), "{bits} bits a second");

        let packets = packets(made);
        assert_eq!(packets[0].data, b"OpusHead\x01\x01\x38\x01\x80\xbb\0\0\0\0\0");
        assert!(packets[1].data.starts_with(b"OpusTags"));
        let (last, sound) = (packets.last().unwrap(), &packets[2..]);
        assert!(last.last_in_stream() && packets[0].first_in_stream());
        assert_eq!(last.absgp_page(), 312 + length);
        assert_eq!(sound.len() as u64, (312 + length).div_ceil(960));
        assert!(sound.is_sorted_by_key(|packet| packet.absgp_page()));

        let mut decoder = ropus::Decoder::new(48_000, Channels::Mono).unwrap();
        let (mut samples, mut frame) = (Vec::new(), vec![0.0f32; 5_760]);
        for packet in sound {
            let size = decoder.decode_float(&packet.data, &mut frame, DecodeMode::Normal).unwrap();
            samples.extend_from_slice(&frame[..size]);
        }
        let heard = &samples[312..312 + length as usize];
        let crossings = heard.windows(2).filter(|pair| (pair[0] < 0.0) != (pair[1] < 0.0)).count() as f64;
        let tone = crossings * 500.0 / f64::from(milliseconds);
        assert!((tone - 440.0).abs() < 25.0, "{tone} Hz");
    }
}

#[tokio::test]
async fn opus_whose_end_says_nothing_has_no_length() {
    let (_, made) = convert(&wave(48_000, 1, 3_900)).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let length = async |bytes: &[u8]| {
        let mut file = spool(folder.path()).await;
        file.write(bytes).await.unwrap();
        length_of(&file.finish().await.unwrap()).await
    };
    let last = made.windows(4).rposition(|four| four == b"OggS").unwrap();
    let with =
        |place: usize, value: &[u8]| [&made[..last + place], value, &made[last + place + value.len()..]].concat();
    assert_eq!(length(&made).await, Some(4));
    assert_eq!(length(&made[..last]).await, Some(3), "as far as it goes");
    assert_eq!(length(&with(6, &[0xff; 8])).await, None, "no packet ends on its last page");
    assert_eq!(length(&with(6, &[0; 8])).await, None, "it ends before it begins");
    assert_eq!(length(&with(6, &[0xfe; 8])).await, None, "in more seconds than there are");
    assert_eq!(length(&with(14, &[7; 4])).await, Some(3), "another stream's page");
    assert_eq!(length(b"OggS").await, None);
}

#[tokio::test]
async fn what_is_no_sound_is_refused() {
    let noise: Vec<u8> = (0..60_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let picture = [b"\x89PNG\r\n\x1a\n".as_slice(), &[7; 5_000]].concat();
    let nothing = wave(44_100, 1, 0);
    for bytes in [&b""[..], b"words", &noise, &picture, &nothing, &wave(1, 1, 9_000), &wave(44_100, 2, 10)[..40]] {
        assert!(is_fault(convert(bytes).await, IssueCode::Format), "{:?}", bytes.get(..8));
    }
}

#[tokio::test]
async fn what_was_cut_short_ends_where_it_was_cut() {
    let whole = wave(16_000, 1, 4_000);
    assert_eq!(convert(&whole[..whole.len() / 2]).await.unwrap().0.seconds, 2);
}

#[tokio::test]
async fn what_is_longer_than_the_limit_is_refused_and_what_is_as_long_is_not() {
    let limited = async |milliseconds| convert_by(&Converter::up_to(2), &wave(8_000, 1, milliseconds)).await;
    assert_eq!(limited(2_000).await.unwrap().0.seconds, 2);
    assert!(is_fault(limited(2_100).await, IssueCode::TooLong));
}

#[test]
fn what_is_too_long_is_refused_before_any_of_it_is_converted() {
    let folder = tempfile::tempdir().unwrap();
    let made = |milliseconds| {
        let path = folder.path().join("sound");
        std::fs::write(&path, wave(8_000, 1, milliseconds)).unwrap();
        let (pages, mut made) = mpsc::channel(1_000);
        let until = Instant::now() + PATIENCE;
        let result = encode(&path, 1, 2 * u64::from(RATE), until, &pages);
        (result.is_ok(), made.try_recv().is_ok())
    };
    assert_eq!(made(2_000), (true, true));
    assert_eq!(made(2_001), (false, false));
}

#[tokio::test]
async fn a_turn_is_given_back_and_a_crowd_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let source = spool(folder.path()).await.finish().await.unwrap();
    let converter = Converter::new();
    let (account, other) = (CustomerId::random(), CustomerId::random());
    for _ in 0..2 * MOST_AT_ONCE {
        let spool = spool(folder.path()).await;
        assert!(matches!(converter.convert(account, &source, spool).await, Err(VoiceError::Unfit(_))));
    }
    let crowd = || converter.waiting.try_take(account);
    let _crowd: Vec<_> = std::iter::from_fn(crowd).collect();
    let _turn = converter.running.take(account).await;
    let refused = converter.convert(account, &source, spool(folder.path()).await).await;
    assert!(matches!(refused, Err(VoiceError::Busy)));
    let unfit = converter.convert(other, &source, spool(folder.path()).await).await;
    assert!(matches!(unfit, Err(VoiceError::Unfit(_))), "another account has its turn beside them");
}
