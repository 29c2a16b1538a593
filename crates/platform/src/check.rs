//! The two health checks that need no program: HTTP and TCP.

use std::time::Duration;

use baton_types::Text;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::limits::CHECK_MAX_BYTES;

/// The verdict of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckResult {
    /// Whether the service is well.
    pub passed: bool,
    /// What it said, or what was wrong.
    pub text: Text,
}

impl CheckResult {
    fn failed(text: &str) -> Self {
        Self { passed: false, text: Text::new(text) }
    }
}

/// One GET of `url` (`http://` only); 2xx passes. The text is the status line and the first line
/// of the body.
pub async fn http_check(url: &str, timeout: Duration) -> CheckResult {
    let url = match HttpUrl::parse(url) {
        Ok(url) => url,
        Err(what) => return CheckResult::failed(&what),
    };
    match tokio::time::timeout(timeout, get(&url)).await {
        Ok(result) => result,
        Err(_) => CheckResult::failed(&format!("{} did not answer within {timeout:?}", url.addr)),
    }
}

/// One connection to `addr` (`host:port`); being let in passes.
pub async fn tcp_check(addr: &str, timeout: Duration) -> CheckResult {
    match tokio::time::timeout(timeout, TcpStream::connect(addr)).await {
        Ok(Ok(_)) => {
            CheckResult { passed: true, text: Text::new(&format!("{addr} takes connections")) }
        }
        Ok(Err(error)) => CheckResult::failed(&format!("cannot connect to {addr}: {error}")),
        Err(_) => CheckResult::failed(&format!("{addr} did not answer within {timeout:?}")),
    }
}

#[derive(Debug, PartialEq, Eq)]
struct HttpUrl {
    addr: String,
    host: String,
    path: String,
}

impl HttpUrl {
    fn parse(url: &str) -> Result<Self, String> {
        let shown: String = url.chars().take(80).collect();
        let Some(rest) = url.strip_prefix("http://") else {
            return Err(format!("{shown:?} is no address to check: it must begin with http://"));
        };
        if url.chars().any(|c| c.is_control() || c == ' ') {
            return Err(format!("{shown:?} holds a space or a control character"));
        }
        let rest = rest.split('#').next().unwrap_or_default();
        let split = rest.find(['/', '?']).unwrap_or(rest.len());
        let (host, path) = rest.split_at(split);
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let after_bracket = host.rfind(']').map_or(0, |at| at + 1);
        let port = host[after_bracket..].rsplit_once(':').map(|(_, port)| port);
        let well = match port {
            Some(port) => port.parse::<u16>().is_ok_and(|port| port != 0),
            None => true,
        };
        if host.is_empty() || host.starts_with(':') || host.contains('@') || !well {
            return Err(format!("{shown:?} has no valid host and port"));
        }
        let addr = if port.is_some() { host.to_owned() } else { format!("{host}:80") };
        Ok(Self { addr, host: host.to_owned(), path })
    }
}

async fn get(url: &HttpUrl) -> CheckResult {
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: baton\r\nAccept: */*\r\nConnection: close\r\n\r\n",
        url.path, url.host
    );
    let mut stream = match TcpStream::connect(&url.addr).await {
        Ok(stream) => stream,
        Err(error) => {
            return CheckResult::failed(&format!("cannot connect to {}: {error}", url.addr));
        }
    };
    if let Err(error) = stream.write_all(request.as_bytes()).await {
        return CheckResult::failed(&format!("cannot ask {}: {error}", url.addr));
    }
    let mut answer = Vec::new();
    let mut chunk = [0; 2_048];
    while answer.len() < CHECK_MAX_BYTES && !is_enough(&answer) {
        match stream.read(&mut chunk).await {
            Ok(0) => break,
            Ok(read) => answer.extend_from_slice(&chunk[..read]),
            // What arrived before a reset still counts.
            Err(_) if !answer.is_empty() => break,
            Err(error) => {
                return CheckResult::failed(&format!("no answer from {}: {error}", url.addr));
            }
        }
    }
    judge(&answer)
}

/// Whether head and first body line are there: the rest of the body is nobody's business.
fn is_enough(answer: &[u8]) -> bool {
    let Some(end) = head_end(answer) else { return false };
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    let body = &answer[end..];
    let lines = body.iter().filter(|byte| **byte == b'\n').count();
    let length = head.lines().find_map(|line| {
        line.strip_prefix("content-length:").and_then(|length| length.trim().parse::<usize>().ok())
    });
    let empty = head.starts_with("http/1.1 204") || head.starts_with("http/1.0 204");
    empty || lines > usize::from(is_chunked(&head)) || length.is_some_and(|len| body.len() >= len)
}

fn judge(answer: &[u8]) -> CheckResult {
    let text = String::from_utf8_lossy(answer);
    let status = text.lines().next().unwrap_or_default().trim_end();
    let mut words = status.split(' ');
    let is_http = words.next().is_some_and(|version| version.starts_with("HTTP/1."));
    let code = words.next().filter(|code| code.len() == 3).and_then(|code| code.parse().ok());
    let (true, Some(code)) = (is_http, code) else {
        let found: String = status.chars().take(40).collect();
        return CheckResult::failed(&format!("not an HTTP answer: {found:?}"));
    };
    let head = head_end(answer).unwrap_or(answer.len());
    let lower = String::from_utf8_lossy(&answer[..head]).to_ascii_lowercase();
    let body = String::from_utf8_lossy(&answer[head..]);
    let line = body.lines().nth(usize::from(is_chunked(&lower))).unwrap_or_default().trim();
    let status = status.split_once(' ').map_or(status, |(_, rest)| rest);
    let told = if line.is_empty() { status.to_owned() } else { format!("{status}: {line}") };
    CheckResult { passed: (200..300u16).contains(&code), text: Text::new(&told) }
}

fn head_end(answer: &[u8]) -> Option<usize> {
    answer.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4)
}

fn is_chunked(lower_head: &str) -> bool {
    lower_head
        .lines()
        .any(|line| line.starts_with("transfer-encoding:") && line.contains("chunked"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[test]
    fn addresses_are_taken_apart() {
        let check = |url: &str, addr: &str, path: &str| {
            let parsed = HttpUrl::parse(url).expect(url);
            assert_eq!((parsed.addr.as_str(), parsed.path.as_str()), (addr, path));
        };
        check("http://a", "a:80", "/");
        check("http://127.0.0.1:8080/health?x=1#y", "127.0.0.1:8080", "/health?x=1");
        check("http://[::1]:81/x", "[::1]:81", "/x");
        check("http://[::1]", "[::1]:80", "/");
        check("http://a?q", "a:80", "/?q");
        for bad in [
            "",
            "https://a",
            "http://",
            "http:///x",
            "http://:80/",
            "http://a:0/",
            "http://a:x",
            "http://a:99999",
            "http://u@a/",
            "http://a/ b",
            "http://a/\r\nX: y",
        ] {
            assert!(HttpUrl::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn answers_are_judged() {
        let check = |answer: &str, passed: bool, text: &str| {
            let result = judge(answer.as_bytes());
            assert_eq!((result.passed, result.text.as_str()), (passed, text), "{answer:?}");
        };
        check("HTTP/1.1 200 OK\r\n\r\nfine\nmore", true, "200 OK: fine");
        check("HTTP/1.0 204 No Content\r\n\r\n", true, "204 No Content");
        check("HTTP/1.1 503 Busy\r\nA: b\r\n\r\nloading", false, "503 Busy: loading");
        check("HTTP/1.1 301 Moved\r\n\r\n", false, "301 Moved");
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfine\r\n";
        check(chunked, true, "200 OK: fine");
        check("", false, "not an HTTP answer: \"\"");
        check("SSH-2.0-x", false, "not an HTTP answer: \"SSH-2.0-x\"");
        check("HTTP/1.1 2000 OK", false, "not an HTTP answer: \"HTTP/1.1 2000 OK\"");
    }

    async fn serve(answer: &'static [u8], repeat: usize) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let addr = listener.local_addr().expect("an address").to_string();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; 1_024];
                let asked = stream.read(&mut request).await.expect("a request");
                assert!(request[..asked].starts_with(b"GET /h HTTP/1.1\r\nHost: 127.0.0.1:"));
                for _ in 0..repeat {
                    if stream.write_all(answer).await.is_err() {
                        return;
                    }
                }
            }
        });
        addr
    }

    #[tokio::test]
    async fn real_servers_good_endless_and_silent() {
        let second = Duration::from_secs(5);
        let good = serve(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine", 1).await;
        let result = http_check(&format!("http://{good}/h"), second).await;
        assert_eq!(result, CheckResult { passed: true, text: "200 OK: fine".into() });
        let endless = serve(&[b'x'; 8_192], 1 << 20).await;
        assert!(!http_check(&format!("http://{endless}/h"), second).await.passed);
        let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let addr = silent.local_addr().expect("an address").to_string();
        let result = http_check(&format!("http://{addr}/h"), Duration::from_millis(50)).await;
        assert!(result.text.as_str().contains("did not answer within 50ms"), "{result:?}");
        assert!(tcp_check(&addr, second).await.passed);
        drop(silent);
        assert!(!tcp_check(&addr, second).await.passed);
        assert!(!http_check(&format!("http://{addr}/h"), second).await.passed);
        assert!(!tcp_check("no address", second).await.passed);
    }
}
