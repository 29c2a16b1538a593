//! The control API's client, as the command line uses it.

use std::path::{Path, PathBuf};

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

use crate::api::{ErrorKind, ErrorReply};

/// One daemon's control socket.
#[derive(Clone, Debug)]
pub struct Client {
    socket: PathBuf,
}

/// Why a request has no good answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens on the socket, or it cannot be opened.
    #[error("no daemon answers on {}: {cause}", socket.display())]
    NoDaemon {
        /// The socket.
        socket: PathBuf,
        /// From the system.
        cause: std::io::Error,
    },
    /// The connection broke in the middle.
    #[error("the daemon on {} stopped answering: {cause}", socket.display())]
    Broken {
        /// The socket.
        socket: PathBuf,
        /// What happened.
        cause: String,
    },
    /// The daemon refused.
    #[error("{0}")]
    Refused(String, ErrorKind),
}

impl Client {
    /// The daemon that listens on `socket`.
    pub fn new(socket: &Path) -> Self {
        Self { socket: socket.to_owned() }
    }

    /// Reads `path` (with its query) as JSON.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.decode(&self.send(Method::GET, path, Bytes::new()).await?)
    }

    /// Posts `body` as it is.
    pub async fn post_bytes<T: DeserializeOwned>(
        &self,
        path: &str,
        body: Vec<u8>,
    ) -> Result<T, ClientError> {
        self.decode(&self.send(Method::POST, path, body.into()).await?)
    }

    /// Reads `path` as the JSON text that the daemon gave.
    pub async fn get_text(&self, path: &str) -> Result<String, ClientError> {
        let body = self.send(Method::GET, path, Bytes::new()).await?;
        String::from_utf8(body.to_vec()).map_err(|cause| self.broken(cause))
    }

    /// Posts `body` to `path`.
    pub async fn post<B: Serialize, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<T, ClientError> {
        let body = serde_json::to_vec(body).map_err(|cause| self.broken(cause))?;
        self.decode(&self.send(Method::POST, path, body.into()).await?)
    }

    async fn send(&self, method: Method, path: &str, body: Bytes) -> Result<Bytes, ClientError> {
        let stream = UnixStream::connect(&self.socket)
            .await
            .map_err(|cause| ClientError::NoDaemon { socket: self.socket.clone(), cause })?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|cause| self.broken(cause))?;
        let connection = tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(hyper::header::HOST, "baton")
            .header(hyper::header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|cause| self.broken(cause))?;
        let response = sender.send_request(request).await.map_err(|cause| self.broken(cause))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_MAX_BYTES)
            .collect()
            .await
            .map_err(|cause| self.broken(cause))?
            .to_bytes();
        connection.abort();
        if status == StatusCode::OK {
            return Ok(body);
        }
        let refusal: ErrorReply = self.decode(&body)?;
        Err(ClientError::Refused(refusal.error, refusal.kind))
    }

    fn decode<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, ClientError> {
        serde_json::from_slice(body).map_err(|cause| self.broken(cause))
    }

    fn broken(&self, cause: impl ToString) -> ClientError {
        ClientError::Broken { socket: self.socket.clone(), cause: cause.to_string() }
    }
}

/// The status of the largest group fits many times.
const ANSWER_MAX_BYTES: usize = 32 * 1024 * 1024;
