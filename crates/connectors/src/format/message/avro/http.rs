//! Short requests to a server in plain HTTP/1.1, each over a connection of its own.

use std::fmt;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// How long connecting, and each wait for bytes, may take.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Bytes of an answer.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// Where requests go.
#[derive(Debug, Clone)]
pub(super) struct Server {
    /// `host:port`
    address: String,
    /// What stands before each path.
    base: String,
    /// A header, or nothing.
    authorization: String,
}

/// What a server says.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: String,
}

impl Answer {
    /// For people.
    pub(super) fn problem(&self) -> String {
        format!("it answers {}: {}", self.status, self.body.chars().take(200).collect::<String>().trim())
    }
}

impl fmt::Display for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "http://{}{}", self.address, self.base)
    }
}

impl Server {
    /// The server of a URL. `user` is `name:password`.
    ///
    /// # Errors
    /// What is wrong with the URL.
    pub(super) fn of(url: &str, user: Option<&str>) -> Result<Server, String> {
        let Some(rest) = url.trim().strip_prefix("http://") else {
            return Err(format!("is '{url}'; only http:// is supported"));
        };
        let (host, path) =
            rest.split_once('/').map_or((rest, String::new()), |(host, path)| (host, format!("/{path}")));
        if host.is_empty() {
            return Err(format!("is '{url}', which names no host"));
        }
        let address = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
        let authorization = user.map(|user| format!("Authorization: Basic {}\r\n", STANDARD.encode(user)));
        let authorization = authorization.unwrap_or_default();
        Ok(Server { address, base: path.trim_end_matches('/').to_owned(), authorization })
    }

    pub(super) fn get(&self, path: &str) -> Result<Answer, String> {
        self.request(&format!("GET {}{path} HTTP/1.1\r\n{}\r\n", self.base, self.headers()))
    }

    pub(super) fn post(&self, path: &str, body: &str) -> Result<Answer, String> {
        self.request(&format!(
            "POST {}{path} HTTP/1.1\r\n{}Content-Type: application/vnd.schemaregistry.v1+json\r\nContent-Length: {}\r\n\r\n{body}",
            self.base,
            self.headers(),
            body.len()
        ))
    }

    fn headers(&self) -> String {
        format!("Host: {}\r\nAccept: */*\r\nConnection: close\r\n{}", self.address, self.authorization)
    }

    fn request(&self, text: &str) -> Result<Answer, String> {
        let failed = |error: std::io::Error| error.to_string();
        let mut addresses = self.address.to_socket_addrs().map_err(failed)?;
        let address = addresses.next().ok_or("it has no address")?;
        let mut stream = TcpStream::connect_timeout(&address, WAIT_MAX).map_err(failed)?;
        stream.set_read_timeout(Some(WAIT_MAX)).and_then(|()| stream.write_all(text.as_bytes())).map_err(failed)?;
        let mut bytes = Vec::new();
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes).map_err(failed)?;
        read_answer(&bytes).ok_or_else(|| "its answer is no HTTP".to_owned())
    }
}

/// An answer behind which the connection was closed.
fn read_answer(bytes: &[u8]) -> Option<Answer> {
    let end = memchr::memmem::find(bytes, b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let body = &bytes[end + 4..];
    let is_chunked = head.lines().any(|line| {
        line.split_once(':').is_some_and(|(name, value)| {
            name.eq_ignore_ascii_case("transfer-encoding") && value.trim().eq_ignore_ascii_case("chunked")
        })
    });
    let body = if is_chunked { joined(body)? } else { body.to_vec() };
    Some(Answer { status, body: String::from_utf8(body).ok()? })
}

/// The chunks of a body, each of which has its length before it.
fn joined(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = memchr::memmem::find(bytes, b"\r\n")?;
        let length = std::str::from_utf8(&bytes[..end]).ok()?.split(';').next()?;
        let length = usize::from_str_radix(length.trim(), 16).ok()?;
        if length == 0 {
            return Some(body);
        }
        let start = end + 2;
        body.extend_from_slice(bytes.get(start..start.checked_add(length)?)?);
        bytes = bytes.get(start + length + 2..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_with_and_without_chunks() {
        let plain = read_answer(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno").unwrap();
        assert_eq!((plain.status, plain.body.as_str()), (404, "no"));
        let text = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nabcd\r\n3;x=y\r\nefg\r\n0\r\n\r\n";
        assert_eq!(read_answer(text).unwrap().body, "abcdefg");
        assert!(read_answer(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nab").is_none());
        assert!(read_answer(b"SSH-2.0").is_none());
    }

    #[test]
    fn urls_name_a_server() {
        let server = Server::of("http://registry:8081/base/", Some("a:b")).unwrap();
        assert_eq!(
            (server.to_string().as_str(), server.authorization.as_str()),
            ("http://registry:8081/base", "Authorization: Basic YTpi\r\n")
        );
        assert_eq!(Server::of("http://registry", None).unwrap().to_string(), "http://registry:80");
        assert!(Server::of("https://registry", None).unwrap_err().contains("only http://"));
    }
}
