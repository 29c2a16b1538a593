//! How the bytes of a depot are read: from a folder, or from a web server.
//!
//! Invariant: a transport believes nothing and checks nothing but sizes; what it brings is verified by
//! those who asked for it. "Not there" is told apart from "cannot be reached".

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::time::Duration;

use ureq::http::StatusCode;
use ureq::{Agent, Body};

use crate::durable;
use crate::error::DepotError;
use crate::limits::{
    HTTP_CONNECT_TIMEOUT, HTTP_REDIRECTS_MAX, HTTP_SILENCE_TIMEOUT, HTTP_SMALL_TIMEOUT,
    HTTP_TOTAL_TIMEOUT,
};

/// Reads the files of one depot; paths are relative to it.
pub(crate) trait Transport: Send + Sync {
    /// A whole file of at most `max_bytes`; `None` when it is not there.
    fn read(&self, path: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, DepotError>;

    /// A file as a stream; `None` when it is not there.
    fn open(&self, path: &str) -> Result<Option<Box<dyn Read>>, DepotError>;

    /// The error for a stream of `path` that broke.
    fn broken(&self, path: &str, source: io::Error) -> DepotError;
}

/// A depot that is a folder.
pub(crate) struct FolderTransport {
    pub(crate) root: PathBuf,
}

impl Transport for FolderTransport {
    fn read(&self, path: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, DepotError> {
        durable::read(&self.root.join(path), max_bytes)
    }

    fn open(&self, path: &str) -> Result<Option<Box<dyn Read>>, DepotError> {
        match File::open(self.root.join(path)) {
            Ok(file) => Ok(Some(Box::new(file))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(self.broken(path, e)),
        }
    }

    fn broken(&self, path: &str, source: io::Error) -> DepotError {
        DepotError::io("read", &self.root.join(path))(source)
    }
}

/// A depot on a web server.
pub(crate) struct HttpTransport {
    base: String,
    agent: Agent,
}

impl HttpTransport {
    /// `https_only` is false in tests alone: signatures make a plain connection safe, but nobody
    /// else needs to read what a fleet runs.
    pub(crate) fn new(base: &str, https_only: bool) -> Self {
        let config = Agent::config_builder()
            .https_only(https_only)
            .http_status_as_error(false)
            .max_redirects(HTTP_REDIRECTS_MAX)
            .timeout_connect(Some(HTTP_CONNECT_TIMEOUT))
            .timeout_resolve(Some(HTTP_CONNECT_TIMEOUT))
            .timeout_recv_response(Some(HTTP_SILENCE_TIMEOUT))
            .timeout_per_read(Some(HTTP_SILENCE_TIMEOUT))
            .user_agent(concat!("baton/", env!("CARGO_PKG_VERSION")))
            .build();
        Self { base: base.to_owned(), agent: Agent::new_with_config(config) }
    }

    fn get(&self, path: &str, total: Duration) -> Result<Option<Body>, DepotError> {
        let url = format!("{}/{path}", self.base);
        let unreachable = |reason: String| DepotError::Unreachable { url: url.clone(), reason };
        let answer = self
            .agent
            .get(&url)
            .config()
            .timeout_global(Some(total))
            .build()
            .call()
            .map_err(|e| unreachable(e.to_string()))?;
        match answer.status() {
            StatusCode::OK => Ok(Some(answer.into_body())),
            StatusCode::NOT_FOUND | StatusCode::GONE => Ok(None),
            status => Err(unreachable(format!("the server answers {status}, expected 200 OK"))),
        }
    }
}

impl Transport for HttpTransport {
    fn read(&self, path: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, DepotError> {
        let Some(body) = self.get(path, HTTP_SMALL_TIMEOUT)? else { return Ok(None) };
        let mut content = Vec::new();
        body.into_reader()
            .take(max_bytes + 1)
            .read_to_end(&mut content)
            .map_err(|e| self.broken(path, e))?;
        if content.len() as u64 > max_bytes {
            return Err(durable::too_large(&format!("{}/{path}", self.base), max_bytes));
        }
        Ok(Some(content))
    }

    fn open(&self, path: &str) -> Result<Option<Box<dyn Read>>, DepotError> {
        let body = self.get(path, HTTP_TOTAL_TIMEOUT)?;
        Ok(body.map(|body| Box::new(body.into_reader()) as Box<dyn Read>))
    }

    fn broken(&self, path: &str, source: io::Error) -> DepotError {
        let url = format!("{}/{path}", self.base);
        DepotError::Unreachable { url, reason: source.to_string() }
    }
}
