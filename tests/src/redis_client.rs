//! A connection to one Redis server: a command in, a reply out, every wait limited.

use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// One connection.
pub struct Connection {
    stream: BufReader<TcpStream>,
}

/// What a server replied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// `+OK`, or the text of a value.
    Text(String),
    /// `-MOVED 3999 10.0.0.1:6379` and the like, without the dash.
    Fault(String),
    /// `:1`.
    Number(i64),
    /// No such value.
    Nothing,
    /// Several replies.
    List(Vec<Reply>),
}

impl Connection {
    /// Connects; both the connection and each later reply may take up to `limit`.
    pub fn open(addr: SocketAddr, limit: Duration) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&addr, limit)?;
        stream.set_read_timeout(Some(limit))?;
        stream.set_write_timeout(Some(limit))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Sends one command and reads its reply. After an error the connection is of no more use.
    pub fn ask(&mut self, words: &[&str]) -> Result<Reply> {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.stream.get_mut().write_all(request.as_bytes())?;
        read_reply(&mut self.stream, 0)
    }
}

/// One command on a fresh connection, for questions asked seldom.
pub fn ask_once(addr: SocketAddr, words: &[&str]) -> Result<Reply> {
    Connection::open(addr, Duration::from_secs(2))?.ask(words)
}

/// The value of `name` in the answer of `INFO`.
pub fn info(addr: SocketAddr, name: &str) -> Result<String> {
    let Reply::Text(text) = ask_once(addr, &["INFO"])? else {
        return Err(bad("INFO answered no text"));
    };
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.map(str::to_owned).ok_or_else(|| bad(name))
}

/// The value of a configuration parameter, as the running server has it.
pub fn parameter(addr: SocketAddr, name: &str) -> Result<String> {
    match ask_once(addr, &["CONFIG", "GET", name])? {
        Reply::List(list) => match list.as_slice() {
            [_, Reply::Text(value)] => Ok(value.clone()),
            _ => Err(bad(name)),
        },
        other => Err(bad(&format!("{other:?}"))),
    }
}

fn read_reply(stream: &mut impl BufRead, depth: u32) -> Result<Reply> {
    let line = read_line(stream)?;
    let Some((kind, rest)) = line.split_at_checked(1) else { return Err(bad("an empty line")) };
    let number = || rest.parse::<i64>().map_err(|_| bad(&line));
    match kind {
        "+" => Ok(Reply::Text(rest.to_owned())),
        "-" => Ok(Reply::Fault(rest.to_owned())),
        ":" => Ok(Reply::Number(number()?)),
        "$" | "*" if number()? < 0 => Ok(Reply::Nothing),
        "$" => {
            let size = usize::try_from(number()?).ok().filter(|size| *size <= SIZE_MAX_BYTES);
            let mut bytes = vec![0; size.ok_or_else(|| bad(&line))? + 2];
            stream.read_exact(&mut bytes)?;
            bytes.truncate(bytes.len() - 2);
            Ok(Reply::Text(String::from_utf8_lossy(&bytes).into_owned()))
        }
        "*" if depth < DEPTH_MAX && number()? <= ITEMS_MAX => (0..number()?)
            .map(|_| read_reply(stream, depth + 1))
            .collect::<Result<_>>()
            .map(Reply::List),
        _ => Err(bad(&line)),
    }
}

fn read_line(stream: &mut impl BufRead) -> Result<String> {
    let mut line = String::new();
    stream.by_ref().take(LINE_MAX_BYTES).read_line(&mut line)?;
    match line.strip_suffix("\r\n") {
        Some(line) => Ok(line.to_owned()),
        None if line.is_empty() => Err(ErrorKind::UnexpectedEof.into()),
        None => Err(bad(&line)),
    }
}

fn bad(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, format!("not a reply that is known here: {what}"))
}

/// `INFO` of a server has about 6 KB.
const SIZE_MAX_BYTES: usize = 1 << 20;
/// Status and error lines are short.
const LINE_MAX_BYTES: u64 = 4096;
/// No command that is used here nests deeper.
const DEPTH_MAX: u32 = 4;
/// No command that is used here lists more.
const ITEMS_MAX: i64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_as_they_are_written() {
        let text = |value: &str| Reply::Text(value.to_owned());
        let cases = [
            ("+OK\r\n", Some(text("OK"))),
            ("-MOVED 1 a:1\r\n", Some(Reply::Fault("MOVED 1 a:1".to_owned()))),
            (":-3\r\n", Some(Reply::Number(-3))),
            ("$2\r\nab\r\n", Some(text("ab"))),
            ("$-1\r\n", Some(Reply::Nothing)),
            ("*2\r\n:1\r\n$0\r\n\r\n", Some(Reply::List(vec![Reply::Number(1), text("")]))),
            ("", None),
            ("\r\n", None),
            ("+cut", None),
            ("$5\r\nab\r\n", None),
            ("$99999999999\r\n", None),
            ("*99999\r\n", None),
            ("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", None),
            ("?what\r\n", None),
        ];
        for (input, expected) in cases {
            let found = read_reply(&mut input.as_bytes(), 0);
            assert_eq!(found.as_ref().ok(), expected.as_ref(), "{input:?} gave {found:?}");
        }
    }
}
