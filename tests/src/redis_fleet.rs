//! A fleet whose hosts run a Redis Cluster under Baton, with a writer and an observer beside it.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;

use crate::cli::{Answer, Typed, baton};
use crate::fleet::Fleet;
use crate::host::{Host, HostSettings};
use crate::observer::{Mark, Observer};
use crate::redis_client::parameter;
use crate::redis_releases::{RELEASE_1, RedisReleases, example};
use crate::redis_writer::RedisWriter;
use crate::{shell, wait};

/// The group's name on the command line.
pub const GROUP: &str = "redis.default";

/// A Redis Cluster of 3 primaries and 3 replicas on release 1.
pub struct RedisFleet {
    // In the order in which they must end.
    writer: Option<RedisWriter>,
    observer: Observer,
    fleet: Fleet,
    releases: RedisReleases,
    servers: Vec<SocketAddr>,
}

impl RedisFleet {
    /// Installs six hosts, brings release 1 to them, forms the cluster, starts to write and to
    /// observe.
    pub fn install() -> Self {
        let mut fleet = Fleet::new(HOSTS);
        let releases = RedisReleases::assemble(fleet.dir());
        releases.publish_all();
        let key_file = fleet.dir().join("ring.key");
        baton(&["ring", "keygen", "--out", &key_file.display().to_string()]);
        let rings: Vec<SocketAddr> = fleet.hosts().iter().map(Host::ring).collect();
        for index in 0..HOSTS {
            let addr = Fleet::addr(index).to_string();
            fleet.host(index).configure(&HostSettings {
                // Two are enough to find all others, and both may be down without harm later.
                join: rings[..2].iter().copied().filter(|ring| *ring != rings[index]).collect(),
                profile: "lan",
                key_file: Some(key_file.clone()),
                services: vec![releases.service(&addr, HOSTS)],
                ..HostSettings::default()
            });
            fleet.host(index).start();
        }
        wait::until("a ring of six", RING, || {
            let members = fleet.hosts()[HOSTS - 1].cli().json(&["ring", "members"])?;
            let alive = count(&members, |member| member["state"] == "alive");
            if alive == HOSTS { Ok(()) } else { Err(members.to_string()) }
        });

        releases.promote(RELEASE_1);
        let servers: Vec<SocketAddr> =
            (0..HOSTS).map(|index| (Fleet::addr(index), REDIS_PORT).into()).collect();
        wait_for_target(&fleet, 0, RELEASE_1);
        watch(&fleet, 0).finish(ROLLOUT).expect_code(0);
        form_cluster(&fleet, &servers);

        let outside = Some(fleet.outside().name());
        let observer = Observer::start(&servers, outside);
        let writer = Some(RedisWriter::start(&servers, outside));
        let this = Self { writer, observer, fleet, releases, servers };
        this.wait_for_writes();
        this
    }

    /// The hosts.
    pub fn fleet(&mut self) -> &mut Fleet {
        &mut self.fleet
    }

    /// The releases and their depot.
    pub fn releases(&self) -> &RedisReleases {
        &self.releases
    }

    /// Who was down and when.
    pub fn observer(&self) -> &Observer {
        &self.observer
    }

    /// Types a command at the host with this index.
    pub fn type_at(&self, host: usize, words: &[&str]) -> Answer {
        self.fleet.hosts()[host].cli().run_for(ROLLOUT, words)
    }

    /// `rollout status` as the host with this index tells it.
    pub fn status(&self, host: usize) -> Result<Value, String> {
        status(&self.fleet, host)
    }

    /// Promotes a version and returns when `host` knows of its rollout.
    pub fn promote(&self, version: &str, host: usize) {
        self.releases.promote(version);
        wait_for_target(&self.fleet, host, version);
    }

    /// Watches the group's rollout at a host until it ends; returns its exit code.
    pub fn watch(&self, host: usize) -> i32 {
        watch(&self.fleet, host).finish(ROLLOUT).code
    }

    /// Waits until a member is in the middle of its turn (*taken* or *monitoring*) and
    /// `choose(leader, member in turn)` answers, which is returned. The host `asked` is asked.
    pub fn wait_for_turn(
        &self,
        asked: usize,
        choose: impl Fn(usize, usize) -> Option<usize>,
    ) -> usize {
        wait::until("a member in its turn", ROLLOUT, || {
            let status = self.status(asked)?;
            let chosen = || choose(self.leader(&status)?, self.in_turn(&status)?);
            chosen().ok_or_else(|| status.to_string())
        })
    }

    /// The index of the member in the middle of its turn.
    pub fn in_turn(&self, status: &Value) -> Option<usize> {
        let members = status["rollout"]["members"].as_array()?;
        let member = members.iter().find(|m| m["turn"] == "taken" || m["turn"] == "monitoring")?;
        Some(self.fleet.index_of(member["name"].as_str()?))
    }

    /// The index of the leader.
    pub fn leader(&self, status: &Value) -> Option<usize> {
        status["leader"].as_str().map(|name| self.fleet.index_of(name))
    }

    /// `maxmemory` of every server, asked of the servers themselves.
    pub fn memory(&self) -> Vec<String> {
        self.fleet.outside().run(|| {
            let ask = |server: &SocketAddr| parameter(*server, "maxmemory");
            self.servers.iter().map(|s| ask(s).unwrap_or_else(|fault| fault.to_string())).collect()
        })
    }

    /// Insists that every member runs `version`, is healthy, and its server shows it by `memory`.
    #[track_caller]
    pub fn expect_all_on(&self, version: &str, memory: &str) {
        assert_eq!(self.memory(), vec![memory; HOSTS], "what the servers say of themselves");
        // The first host hears of the others' health a moment later than the leader may have.
        wait::until(&format!("healthy members on {version}"), RING, || {
            let list = self.fleet.hosts()[0].cli().json(&["service", "list"])?;
            let good = count(&list, |service| {
                service["release"] == format!("redis/{version}") && service["health"] == "ok"
            });
            if good == HOSTS { Ok(()) } else { Err(format!("{list:#}")) }
        });
    }

    /// Insists that each server went away once since, and came back.
    #[track_caller]
    pub fn expect_one_restart_each(&self, since: Mark) {
        let restarts = self.observer.restarts_since(since, HOSTS);
        assert_eq!(restarts, [1; HOSTS], "restarts:\n{}", self.observer.told_since(since));
    }

    /// Insists that the observer never saw more than one server down.
    #[track_caller]
    pub fn expect_one_down_at_most(&self) {
        let down = self.observer.most_down_at_once();
        assert!(down.len() <= 1, "servers {down:?} were down at the same time");
    }

    /// Insists that the writer still gets its writes acknowledged.
    pub fn wait_for_writes(&self) {
        let writer = self.writer.as_ref().expect("the writer is at work");
        let before = writer.acknowledged();
        wait::until("acknowledged writes", WRITES, || {
            let more = writer.acknowledged() - before;
            if more >= 100 { Ok(()) } else { Err(format!("{more} more than {before}")) }
        });
    }

    /// Stops the writer and insists that everything acknowledged is still there.
    #[track_caller]
    pub fn expect_nothing_lost(&mut self) {
        let written = self.writer.take().expect("the writer is at work").finish();
        println!(
            "{} writes acknowledged, {} unconfirmed, longest gap {:?}",
            written.acknowledged.len(),
            written.unconfirmed,
            written.longest_gap
        );
        let lost = written.lost(&self.servers, Some(self.fleet.outside().name()));
        assert!(lost.is_empty(), "{} acknowledged writes are lost: {lost:#?}", lost.len());
    }
}

fn form_cluster(fleet: &Fleet, servers: &[SocketAddr]) {
    let script = example("form-cluster").display().to_string();
    let servers: Vec<String> = servers.iter().map(SocketAddr::to_string).collect();
    let mut words = vec![script.as_str()];
    words.extend(servers.iter().map(String::as_str));
    fleet.outside().run(|| shell::run(&words));
}

fn status(fleet: &Fleet, host: usize) -> Result<Value, String> {
    fleet.hosts()[host].cli().json(&["rollout", "status", GROUP])
}

fn wait_for_target(fleet: &Fleet, host: usize, version: &str) {
    wait::until(&format!("a rollout to {version}"), RING, || {
        let status = status(fleet, host)?;
        let found = &status["rollout"]["to"]["release"];
        if *found == format!("redis/{version}") { Ok(()) } else { Err(status.to_string()) }
    });
}

fn watch(fleet: &Fleet, host: usize) -> Typed {
    fleet.hosts()[host].cli().start(&["rollout", "status", GROUP, "--watch"])
}

fn count(list: &Value, good: impl Fn(&Value) -> bool) -> usize {
    list.as_array().map_or(0, |list| list.iter().filter(|entry| good(entry)).count())
}

const HOSTS: usize = 6;
const REDIS_PORT: u16 = 6379;
/// Six turns of about 12 s, on a machine that builds something beside it.
const ROLLOUT: Duration = Duration::from_secs(300);
const RING: Duration = Duration::from_secs(60);
const WRITES: Duration = Duration::from_secs(60);
