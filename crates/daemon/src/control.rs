//! The control API's server: every request becomes one event of the node, and its reply one
//! answer.
//!
//! Invariant: a request that does not parse changes nothing and says what was found. Who may open
//! the socket may do everything; the socket file's mode decides who that is.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use baton_node::request::{NodeRef, Reply, Request, Why};
use baton_types::GroupName;
use serde::de::DeserializeOwned;
use tokio::net::UnixListener;
use tokio::sync::{mpsc, oneshot};

use crate::api::{
    CommandBody, CommandIdText, CommandReply, ConfigQuery, DoneReply, ErrorKind, ErrorReply,
    GroupQuery, JoinBody, LeaveBody, LoadBody, LogsReply, NodeBody, ServiceBody, TrustBody,
};

/// A request on its way to the node.
#[derive(Debug)]
pub(crate) struct Asked {
    /// What is asked.
    pub what: Question,
    /// Where the answer goes.
    pub reply: oneshot::Sender<Reply>,
}

/// What is asked of the daemon.
#[derive(Debug)]
pub(crate) enum Question {
    /// Of the node itself.
    Node(Request),
    /// The last lines of a service's output, which the shell keeps; answered as JSON.
    Logs(GroupName, usize),
    /// A service file to check and load.
    Load(LoadBody),
    /// A depot whose id and sequence are to be forgotten.
    Trust(String),
    /// A signed configuration revision to keep for its group.
    HandIn(GroupName, Vec<u8>),
    /// An address to resolve and join.
    Join(String),
}

/// Why the socket could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the control socket {path}: {cause}")]
pub struct ControlError {
    path: PathBuf,
    cause: std::io::Error,
}

/// Opens the socket with mode 0660, for the group `baton` where that exists.
pub(crate) fn listen(path: &Path) -> Result<UnixListener, ControlError> {
    let failed = |cause| ControlError { path: path.to_owned(), cause };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    // A socket that nobody answers is the remains of a daemon that was killed; the data
    // directory's lock has already shown that no other daemon lives on this one.
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => {
            let cause = std::io::Error::new(
                std::io::ErrorKind::AddrInUse,
                "another daemon answers on it; give this one its own with [control] socket",
            );
            return Err(failed(cause));
        }
        Err(cause) if cause.kind() == std::io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(failed)?;
        }
        Err(_) => {}
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o660);
    std::fs::set_permissions(path, mode).map_err(failed)?;
    if let Some(group) = baton_platform::user::group_id("baton") {
        // Without the right to give it away the socket stays with our own group.
        if let Err(cause) = std::os::unix::fs::chown(path, None, Some(group)) {
            tracing::debug!("control socket keeps its group: {cause}");
        }
    }
    Ok(listener)
}

/// Serves until the node is gone.
pub(crate) async fn serve(
    listener: UnixListener,
    asked: mpsc::Sender<Asked>,
) -> std::io::Result<()> {
    axum::serve(listener, router(asked)).await
}

fn router(asked: mpsc::Sender<Asked>) -> Router {
    Router::new()
        .route("/v1/status", get(status))
        .route("/v1/history", get(history))
        .route("/v1/outcomes", get(outcomes))
        .route("/v1/config", get(config))
        .route("/v1/config/hand-in", post(hand_in))
        .route("/v1/logs", get(logs))
        .route("/v1/groups", get(|state| read(state, Request::Groups)))
        .route("/v1/members", get(|state| read(state, Request::RingMembers)))
        .route("/v1/services", get(|state| read(state, Request::Services)))
        .route("/v1/summary", get(|state| read(state, Request::Summary)))
        .route("/v1/command", post(command))
        .route("/v1/depot/trust", post(trust))
        .route("/v1/ring/join", post(join))
        .route("/v1/ring/leave", post(leave))
        .route("/v1/ring/forget", post(forget))
        .route("/v1/member/cordon", post(cordon))
        .route("/v1/member/uncordon", post(uncordon))
        .route("/v1/service/load", post(load))
        .route("/v1/service/unload", post(unload))
        .route("/v1/service/start", post(start))
        .route("/v1/service/stop", post(stop))
        .route("/v1/service/restart", post(restart))
        .fallback(|uri: axum::http::Uri| async move {
            error(ErrorKind::BadRequest, format!("the control API has no {}", uri.path()))
        })
        .layer(DefaultBodyLimit::max(BODY_MAX_BYTES))
        .with_state(Arc::new(asked))
}

type Node = State<Arc<mpsc::Sender<Asked>>>;
type ConfigArgument = Result<Query<ConfigQuery>, axum::extract::rejection::QueryRejection>;
type GroupArgument = Result<Query<GroupQuery>, axum::extract::rejection::QueryRejection>;

async fn read(node: Node, request: Request) -> Response {
    ask(&node, Question::Node(request)).await
}

async fn status(node: Node, query: GroupArgument) -> Response {
    with_group(node, query, |query| Question::Node(Request::Status(query.group))).await
}

async fn history(node: Node, query: GroupArgument) -> Response {
    with_group(node, query, |query| Question::Node(Request::History(query.group))).await
}

async fn outcomes(node: Node, query: GroupArgument) -> Response {
    let Ok(Query(GroupQuery { group, rollout: Some(rollout), .. })) = query else {
        let text = "expected `group`, SERVICE.GROUP, and `rollout`, the id of one that ended";
        return error(ErrorKind::BadRequest, text.to_owned());
    };
    ask(&node, Question::Node(Request::Outcomes(group, rollout))).await
}

async fn config(node: Node, query: ConfigArgument) -> Response {
    match query {
        Ok(Query(ConfigQuery { group, digest })) => {
            ask(&node, Question::Node(Request::Config(group, digest))).await
        }
        Err(rejection) => error(ErrorKind::BadRequest, rejection.body_text()),
    }
}

async fn hand_in(node: Node, query: GroupArgument, body: Bytes) -> Response {
    with_group(node, query, |query| Question::HandIn(query.group, body.to_vec())).await
}

async fn logs(node: Node, query: GroupArgument) -> Response {
    with_group(node, query, |query| {
        Question::Logs(query.group, query.lines.unwrap_or(LOG_LINES).min(LOG_LINES_MAX))
    })
    .await
}

async fn with_group(
    node: Node,
    query: GroupArgument,
    question: impl FnOnce(GroupQuery) -> Question,
) -> Response {
    match query {
        Ok(Query(query)) => ask(&node, question(query)).await,
        Err(rejection) => error(ErrorKind::BadRequest, rejection.body_text()),
    }
}

async fn command(node: Node, body: Bytes) -> Response {
    with_body(node, &body, |body: CommandBody| Request::Command {
        group: body.group,
        action: body.action,
        id: body.id.map(|id| id.0),
    })
    .await
}

async fn join(node: Node, body: Bytes) -> Response {
    match parse(&body) {
        Ok(JoinBody { addr }) => ask(&node, Question::Join(addr)).await,
        Err(refusal) => *refusal,
    }
}

async fn trust(node: Node, body: Bytes) -> Response {
    match parse(&body) {
        Ok(TrustBody { depot }) => ask(&node, Question::Trust(depot)).await,
        Err(refusal) => *refusal,
    }
}

async fn leave(node: Node, body: Bytes) -> Response {
    with_body(node, &body, |body: LeaveBody| Request::RingLeave { force: body.force }).await
}

async fn forget(node: Node, body: Bytes) -> Response {
    match parse(&body) {
        Ok(NodeBody { node: Some(name) }) => {
            ask(&node, Question::Node(Request::RingForget(node_ref(name)))).await
        }
        Ok(NodeBody { node: None }) => {
            error(ErrorKind::BadRequest, "name the node to forget".to_owned())
        }
        Err(refusal) => *refusal,
    }
}

async fn cordon(node: Node, body: Bytes) -> Response {
    with_body(node, &body, |body: NodeBody| Request::Cordon(body.node.map(node_ref))).await
}

async fn uncordon(node: Node, body: Bytes) -> Response {
    with_body(node, &body, |body: NodeBody| Request::Uncordon(body.node.map(node_ref))).await
}

async fn load(node: Node, body: Bytes) -> Response {
    match parse(&body) {
        Ok(body) => ask(&node, Question::Load(body)).await,
        Err(refusal) => *refusal,
    }
}

async fn unload(node: Node, body: Bytes) -> Response {
    with_body(node, &body, |body: ServiceBody| Request::ServiceUnload {
        group: body.group,
        force: body.force,
    })
    .await
}

async fn start(node: Node, body: Bytes) -> Response {
    with_body(node, &body, |body: ServiceBody| Request::ServiceStart(body.group)).await
}

async fn stop(node: Node, body: Bytes) -> Response {
    with_body(node, &body, |body: ServiceBody| Request::ServiceStop(body.group)).await
}

async fn restart(node: Node, body: Bytes) -> Response {
    with_body(node, &body, |body: ServiceBody| Request::ServiceRestart(body.group)).await
}

async fn with_body<T: DeserializeOwned>(
    node: Node,
    body: &Bytes,
    request: impl FnOnce(T) -> Request,
) -> Response {
    match parse(body) {
        Ok(body) => ask(&node, Question::Node(request(body))).await,
        Err(refusal) => *refusal,
    }
}

fn parse<T: DeserializeOwned>(body: &Bytes) -> Result<T, Box<Response>> {
    serde_json::from_slice(body)
        .map_err(|cause| Box::new(error(ErrorKind::BadRequest, format!("request body: {cause}"))))
}

/// A node as people name it: an id where it reads as one, else a name.
fn node_ref(text: String) -> NodeRef {
    text.parse().map_or(NodeRef::Name(text), NodeRef::Id)
}

async fn ask(node: &mpsc::Sender<Asked>, what: Question) -> Response {
    let (reply, answer) = oneshot::channel();
    let stopping = || error(ErrorKind::Failed, "the daemon is stopping".to_owned());
    if node.send(Asked { what, reply }).await.is_err() {
        return stopping();
    }
    match tokio::time::timeout(PATIENCE, answer).await {
        Ok(Ok(reply)) => answer_of(reply),
        Ok(Err(_)) => stopping(),
        Err(_) => error(
            ErrorKind::TimedOut,
            format!("no answer within {} s; it may have been accepted", PATIENCE.as_secs()),
        ),
    }
}

fn answer_of(reply: Reply) -> Response {
    match reply {
        Reply::Json(json) => ([(header::CONTENT_TYPE, "application/json")], json).into_response(),
        Reply::Command { id, answer } => {
            Json(CommandReply { id: CommandIdText(id), answer }).into_response()
        }
        Reply::Done(message) => Json(DoneReply { message }).into_response(),
        Reply::Refused { why, text } => {
            let kind = match why {
                Why::Unknown => ErrorKind::Unknown,
                Why::State => ErrorKind::State,
                Why::NoQuorum => ErrorKind::NoQuorum,
                Why::TimedOut => ErrorKind::TimedOut,
            };
            error(kind, text)
        }
    }
}

fn error(kind: ErrorKind, error: String) -> Response {
    let status = StatusCode::from_u16(kind.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, Json(ErrorReply { error, kind })).into_response()
}

/// The answer with a service's last lines.
pub(crate) fn logs_reply(lines: Vec<String>) -> Reply {
    match serde_json::to_string(&LogsReply { lines }) {
        Ok(json) => Reply::Json(json),
        Err(cause) => Reply::Refused { why: Why::State, text: format!("log lines: {cause}") },
    }
}

/// A service file and a signed configuration revision fit; nothing larger is read.
const BODY_MAX_BYTES: usize = 2 * 1024 * 1024;

/// Longer than the node's own patience with a leader, so that its answer is the one that is seen.
const PATIENCE: Duration = Duration::from_secs(60);

/// Lines of output shown unless told otherwise.
const LOG_LINES: usize = 100;

/// Most lines of output in one answer.
const LOG_LINES_MAX: usize = 10_000;
