//! `baton demo-service`: the program that the demo's releases run. It answers `GET /health` with
//! 200 and everything else with its version, over connections that may stay open.
//!
//! Invariant: it knows nothing of Baton: a port in its environment is all it is told, and SIGTERM
//! ends it as it ends any program.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::exit::Failure;
use crate::output::{Output, write_stderr};

/// Serves until it is killed; a broken release ends itself `breaks_after` its first answer.
pub(crate) fn serve(
    version: &str,
    breaks_after: Option<Duration>,
    output: &mut Output,
) -> Result<u8, Failure> {
    let port = std::env::var("PORT").ok().and_then(|port| port.parse::<u16>().ok());
    let port = port.ok_or_else(|| {
        Failure::failed("demo-service: PORT is not set to a port: expected a number up to 65535")
    })?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .map_err(|cause| Failure::failed(format!("demo-service: port {port}: {cause}")))?;
    output.line(&format!("version {version} answers on 127.0.0.1:{port}"))?;
    for stream in listener.incoming().filter_map(Result::ok) {
        if OPEN.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
            OPEN.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let version = version.to_owned();
        thread::spawn(move || {
            // A client that breaks off ends its own connection and nothing else.
            converse(stream, &version, breaks_after).ok();
            OPEN.fetch_sub(1, Ordering::Relaxed);
        });
    }
    Ok(crate::exit::DONE)
}

fn converse(
    mut stream: TcpStream,
    version: &str,
    breaks_after: Option<Duration>,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(IDLE_MAX))?;
    let mut request = Vec::new();
    let mut chunk = [0; 1024];
    loop {
        let read = stream.read(&mut chunk)?;
        request.extend(chunk.iter().take(read));
        if read == 0 || request.len() > REQUEST_MAX_BYTES {
            return Ok(());
        }
        if !request.ends_with(b"\r\n\r\n") {
            continue;
        }
        stream.write_all(answer(&request, version).as_bytes())?;
        request.clear();
        if let Some(after) = breaks_after {
            break_later(after);
        }
    }
}

fn answer(request: &[u8], version: &str) -> String {
    let (status, body) = match request {
        [b'G', b'E', b'T', b' ', rest @ ..] if rest.starts_with(b"/health ") => ("200 OK", "ok"),
        [b'G', b'E', b'T', b' ', rest @ ..] if rest.starts_with(b"/ ") => ("200 OK", version),
        [b'G', b'E', b'T', b' ', ..] => ("404 Not Found", "there is / and /health"),
        _ => ("405 Method Not Allowed", "only GET"),
    };
    let length = body.len() + 1;
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\n\r\n{body}\n"
    )
}

/// What a release that starts well and then fails does.
fn break_later(after: Duration) {
    BREAKS.call_once(|| {
        thread::spawn(move || {
            thread::sleep(after);
            write_stderr("fatal: this release is broken on purpose");
            std::process::exit(1);
        });
    });
}

static BREAKS: Once = Once::new();
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// The demo asks on two connections; a person may try a few more.
const CONNECTIONS_MAX: usize = 64;

/// Any usual client's request fits.
const REQUEST_MAX_BYTES: usize = 16 * 1024;

/// A silent connection is given up after this.
const IDLE_MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_has_its_answer() {
        for (request, status, body) in [
            ("GET / HTTP/1.1\r\nhost: x\r\n\r\n", "200", "7\n"),
            ("GET /health HTTP/1.1\r\n\r\n", "200", "ok\n"),
            ("GET /healthy HTTP/1.1\r\n\r\n", "404", "there is / and /health\n"),
            ("POST / HTTP/1.1\r\n\r\n", "405", "only GET\n"),
        ] {
            let answer = answer(request.as_bytes(), "7");
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
            assert!(answer.ends_with(&format!("\r\n\r\n{body}")), "{request}: {answer}");
            assert!(answer.contains(&format!("content-length: {}\r\n", body.len())));
        }
    }
}
