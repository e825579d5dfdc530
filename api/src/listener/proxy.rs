//! Reads the PROXY header, versions 1 and 2, by which a balancer names its client at the beginning of a connection.
//! (<https://www.haproxy.org/download/2.6/doc/proxy-protocol.txt>)

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::io::{AsyncRead, AsyncReadExt};

/// The first bytes of version 2; those of version 1 are `PROXY `.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";

/// The longest line of version 1, with its end.
const LONGEST_LINE: usize = 107;

/// The longest rest of a version 2 header that is read: addresses and more extensions than balancers send.
const LONGEST_REST: u16 = 4096;

/// Reads the header and nothing behind it. `None` when the connection is the balancer's own, such as a health check, or
/// when the header does not name a client.
///
/// # Errors
/// When the connection does not begin with a header.
pub async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<SocketAddr>> {
    let mut first = [0; SIGNATURE.len()];
    stream.read_exact(&mut first).await?;
    if first == SIGNATURE {
        return binary(stream).await;
    }
    if !first.starts_with(b"PROXY ") {
        return Err(invalid("no PROXY header"));
    }
    let mut line = first.to_vec();
    while !line.ends_with(b"\r\n") {
        if line.len() == LONGEST_LINE {
            return Err(invalid("the line is too long"));
        }
        line.push(stream.read_u8().await?);
    }
    let text = std::str::from_utf8(&line).map_err(|_| invalid("the line is no text"))?;
    of_line(text.trim_end())
}

/// Parses `PROXY TCP4 client balancer client-port balancer-port`.
fn of_line(line: &str) -> io::Result<Option<SocketAddr>> {
    let wrong = || invalid("the line is no PROXY header");
    let words: Vec<&str> = line.split(' ').collect();
    let address: IpAddr = match words[..] {
        ["PROXY", "UNKNOWN", ..] => return Ok(None),
        ["PROXY", "TCP4", client, _, _, _] => client.parse::<Ipv4Addr>().map_err(|_| wrong())?.into(),
        ["PROXY", "TCP6", client, _, _, _] => client.parse::<Ipv6Addr>().map_err(|_| wrong())?.into(),
        _ => return Err(wrong()),
    };
    let port: u16 = words[4].parse().map_err(|_| wrong())?;
    Ok(Some(SocketAddr::new(address, port)))
}

async fn binary(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<SocketAddr>> {
    let (command, family, length) = (stream.read_u8().await?, stream.read_u8().await?, stream.read_u16().await?);
    if length > LONGEST_REST {
        return Err(invalid("the header is too long"));
    }
    let mut rest = vec![0; usize::from(length)];
    stream.read_exact(&mut rest).await?;
    match command {
        // The LOCAL command: the connection is the balancer's own.
        0x20 => Ok(None),
        0x21 => of_addresses(family, &rest),
        _ => Err(invalid("an unknown version or command")),
    }
}

/// Parses the addresses of client and balancer, then their ports. Extensions behind them are ignored.
fn of_addresses(family: u8, rest: &[u8]) -> io::Result<Option<SocketAddr>> {
    let port = |at: usize| rest.get(at..at + 2).map(|port| u16::from_be_bytes([port[0], port[1]]));
    let client = match family {
        // TCP over IPv4, and over IPv6.
        0x11 => rest.first_chunk::<4>().map(|client| IpAddr::from(*client)).zip(port(8)),
        0x21 => rest.first_chunk::<16>().map(|client| IpAddr::from(*client)).zip(port(32)),
        _ => return Ok(None),
    };
    let (address, port) = client.ok_or_else(|| invalid("the addresses are cut short"))?;
    Ok(Some(SocketAddr::new(address, port)))
}

fn invalid(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    /// The client that was read, and the bytes that are left.
    async fn client_of(bytes: &[u8]) -> (Result<Option<String>, io::ErrorKind>, String) {
        let mut stream = bytes;
        let read = read(&mut stream).await;
        let client = read.map(|client| client.map(|client| client.to_string())).map_err(|error| error.kind());
        (client, String::from_utf8_lossy(stream).into_owned())
    }

    #[tokio::test]
    async fn a_line_names_the_client_and_what_follows_is_left() {
        let table: &[(&str, Option<&str>)] = &[
            ("PROXY TCP4 198.51.100.7 10.0.0.1 4711 8080\r\n", Some("198.51.100.7:4711")),
            ("PROXY TCP6 2001:db8::7 2001:db8::1 4711 8080\r\n", Some("[2001:db8::7]:4711")),
            ("PROXY UNKNOWN\r\n", None),
            ("PROXY UNKNOWN 1 2 3 4\r\n", None),
        ];
        for (line, client) in table {
            let expected = (Ok(client.map(str::to_owned)), "GET /".to_owned());
            assert_eq!(client_of(format!("{line}GET /").as_bytes()).await, expected, "{line}");
        }
    }

    #[tokio::test]
    async fn what_is_no_header_is_refused() {
        let long = format!("PROXY TCP4 {}\r\n", "1".repeat(200));
        let wrong = [
            "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            "PROXY TCP4 198.51.100.7\r\n",
            "PROXY TCP4 2001:db8::7 2001:db8::1 1 2\r\n",
            "PROXY TCP4 198.51.100.7 10.0.0.1 99999 1\r\n",
            &long,
        ];
        for text in wrong {
            assert_eq!(client_of(text.as_bytes()).await.0, Err(io::ErrorKind::InvalidData), "{text}");
        }
        assert_eq!(client_of(b"PROXY TCP4 1.2").await.0, Err(io::ErrorKind::UnexpectedEof));
    }

    #[tokio::test]
    async fn version_2_names_the_client_whatever_else_it_says() {
        let header = |command: u8, family: u8, rest: &[u8]| {
            let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
            [&SIGNATURE[..], &[command, family], &length, rest, b"GET /"].concat()
        };
        let four = [&[198, 51, 100, 7, 10, 0, 0, 1][..], &4711_u16.to_be_bytes(), &8080_u16.to_be_bytes()].concat();
        let with_more = [&four[..], &[4, 0, 1, 0]].concat();
        let (client, balancer) = ("2001:db8::7".parse::<Ipv6Addr>().unwrap(), Ipv6Addr::LOCALHOST);
        let six = [&client.octets()[..], &balancer.octets(), &4711_u16.to_be_bytes(), &[0, 80]].concat();
        let table = [
            (header(0x21, 0x11, &four), Ok(Some("198.51.100.7:4711".to_owned()))),
            (header(0x21, 0x11, &with_more), Ok(Some("198.51.100.7:4711".to_owned()))),
            (header(0x21, 0x21, &six), Ok(Some("[2001:db8::7]:4711".to_owned()))),
            (header(0x20, 0x00, &[]), Ok(None)),
            (header(0x21, 0x31, &[0; 216]), Ok(None)),
            (header(0x21, 0x11, &four[..6]), Err(io::ErrorKind::InvalidData)),
            (header(0x31, 0x11, &four), Err(io::ErrorKind::InvalidData)),
        ];
        for (bytes, expected) in table {
            let (client, rest) = client_of(&bytes).await;
            assert_eq!(client, expected, "{bytes:?}");
            if expected.is_ok() {
                assert_eq!(rest, "GET /");
            }
        }
    }
}
