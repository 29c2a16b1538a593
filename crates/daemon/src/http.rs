//! The optional read-only HTTP page: `/` for people, `/health` for load balancers, `/metrics` for
//! Prometheus.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use baton_node::{Reply, Request};
use baton_types::status::{RingMemberStatus, ServiceStatus};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde::de::DeserializeOwned;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

use crate::control::{Asked, Question};
use crate::net::{Count, NetCounters};

/// What the page needs.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) asked: mpsc::Sender<Asked>,
    pub(crate) counters: NetCounters,
}

/// Opens the page's port.
pub(crate) async fn listen(addr: SocketAddr) -> std::io::Result<TcpListener> {
    TcpListener::bind(addr).await
}

/// Serves until the daemon ends.
pub(crate) async fn serve(listener: TcpListener, page: Page) -> std::io::Result<()> {
    let router = Router::new()
        .route("/", get(index))
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .with_state(Arc::new(page));
    axum::serve(listener, router).await
}

async fn ask<T: DeserializeOwned>(page: &Page, request: Request) -> Option<T> {
    let (reply, answer) = oneshot::channel();
    page.asked.send(Asked { what: Question::Node(request), reply }).await.ok()?;
    match answer.await.ok()? {
        Reply::Json(json) => serde_json::from_str(&json).ok(),
        _ => None,
    }
}

async fn index(State(page): State<Arc<Page>>) -> Response {
    let summary: Option<String> = ask(&page, Request::Summary).await;
    let members: Option<Vec<RingMemberStatus>> = ask(&page, Request::RingMembers).await;
    let services: Option<Vec<ServiceStatus>> = ask(&page, Request::Services).await;
    let (Some(summary), Some(members), Some(services)) = (summary, members, services) else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let mut text = format!("{summary}\n\nmembers\n");
    for member in members {
        text += &format!("  {:20} {:10} {}\n", member.name, member.state, member.addr);
    }
    text += "\nservices\n";
    for service in services {
        text += &format!(
            "  {:30} {:20} {:20} {:10} {}\n",
            service.group, service.name, service.release, service.process, service.health
        );
    }
    text.into_response()
}

/// 200 while the daemon's loop answers; the state of services is not the daemon's health.
async fn health(State(page): State<Arc<Page>>) -> Response {
    match ask::<String>(&page, Request::Summary).await {
        Some(summary) => summary.into_response(),
        None => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

async fn metrics(State(page): State<Arc<Page>>) -> Response {
    let mut registry = Registry::with_prefix("baton");
    let packets: Family<Vec<(String, String)>, Gauge> = Family::default();
    registry.register("packets", "Packets by what became of them", packets.clone());
    for (count, name) in Count::ALL {
        let label = vec![("result".to_owned(), name.to_owned())];
        packets.get_or_create(&label).set(number(page.counters.get(count)));
    }
    let states: Family<Vec<(String, String)>, Gauge> = Family::default();
    registry.register("ring_members", "Members of the ring by state", states.clone());
    let members: Vec<RingMemberStatus> = ask(&page, Request::RingMembers).await.unwrap_or_default();
    for state in ["alive", "suspect", "restarting", "dead", "left"] {
        let count = members.iter().filter(|member| member.state == state).count();
        let label = vec![("state".to_owned(), state.to_owned())];
        states.get_or_create(&label).set(number(count as u64));
    }
    let healthy: Family<Vec<(String, String)>, Gauge> = Family::default();
    registry.register("service_healthy", "1: ok or warning, 0: not", healthy.clone());
    let restarts: Family<Vec<(String, String)>, Gauge> = Family::default();
    registry.register("service_restarts", "Restarts after a crash", restarts.clone());
    let services: Vec<ServiceStatus> = ask(&page, Request::Services).await.unwrap_or_default();
    for service in services {
        let label = vec![("group".to_owned(), service.group), ("node".to_owned(), service.name)];
        let is_healthy = matches!(service.health.as_str(), "ok" | "warning");
        healthy.get_or_create(&label).set(i64::from(is_healthy));
        restarts.get_or_create(&label).set(i64::from(service.restarts));
    }
    let mut text = String::new();
    match encode(&mut text, &registry) {
        Ok(()) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(cause) => (StatusCode::INTERNAL_SERVER_ERROR, cause.to_string()).into_response(),
    }
}

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
