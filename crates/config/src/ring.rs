//! Reads `[ring]`, and checks that its timings fit together and that it is not open to strangers.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use baton_types::exact_duration;
use baton_types::timing::{Profile, RingTiming};

use crate::limits::{
    FANOUT_MAX, JOIN_MAX, PACKET_MAX_BYTES, PACKET_MIN_BYTES, PATH_MAX_BYTES, PERIOD_MIN,
    SUSPICION_MULTIPLIER_MAX,
};
use crate::section::{Section, Setting};
use crate::settings::RingSettings;
use crate::value;

/// Reads `[ring]`.
pub(crate) fn read_ring(mut section: Section<'_>) -> RingSettings {
    let default_bind = SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PORT));
    let bind = section.read("bind", default_bind, value::socket_addr);
    let advertise = section.read("advertise", None, |found| {
        let addr = value::socket_addr(found)?;
        let reachable = addr.port() != 0 && !addr.ip().is_unspecified();
        let wanted = "an address that other nodes can reach, with a port from 1 to 65535,";
        if reachable { Ok(Some(addr)) } else { Err(value::mismatch(found, wanted)) }
    });
    let join = section.list("join", JOIN_MAX, value::host_port);
    let profile = section.read("profile", Profile::Lan, |found| value::choice(found, Profile::ALL));
    let key_file =
        section.read("key_file", None, |found| value::path(found, PATH_MAX_BYTES).map(Some));
    let insecure = section.read("insecure", false, value::boolean);
    let timing = read_timing(&mut section, profile.value);

    // A key_file with a fault of its own is no missing key.
    let open = key_file.is_absent() && !insecure.value;
    if !bind.value.ip().is_loopback() && open {
        let message = format!(
            "found \"{}\" without a key; only a loopback address is allowed without key_file, \
             unless insecure = true",
            bind.value
        );
        section.document.fault(&bind.place, message);
    }
    if insecure.value && key_file.is_given() {
        let message = "found true beside key_file; it has no effect, traffic is sealed";
        section.document.warn(&insecure.place, message.to_owned());
    }
    let far = join
        .value
        .iter()
        .find(|(addr, _)| addr.parse::<SocketAddr>().is_ok_and(|addr| !addr.ip().is_loopback()));
    if let Some((addr, place)) = far.filter(|_| bind.value.ip().is_loopback()) {
        let message = format!(
            "found \"{addr}\", which cannot be reached from bind = \"{}\"; bind an address of the \
             network",
            bind.value
        );
        section.document.warn(place, message);
    }
    section.finish();
    RingSettings {
        bind: bind.value,
        advertise: advertise.value,
        join: join.value.into_iter().map(|(addr, _)| addr).collect(),
        profile: profile.value,
        timing,
        key_file: key_file.value,
        insecure: insecure.value,
    }
}

/// Reads every timing; what is not given is the profile's.
fn read_timing(section: &mut Section<'_>, profile: Profile) -> RingTiming {
    let base = profile.timing();
    let probe_period = duration(section, "probe_period", base.probe_period);
    let probe_timeout = duration(section, "probe_timeout", base.probe_timeout);
    let gossip_interval = duration(section, "gossip_interval", base.gossip_interval);
    let floor = profile.suspicion_floor(probe_period.value);
    let suspicion_floor = duration(section, "suspicion_floor", floor);
    let reap_after = duration(section, "reap_after", base.reap_after);
    let reconnect_interval = duration(section, "reconnect_interval", base.reconnect_interval);
    let restart_grace = duration(section, "restart_grace", base.restart_grace);
    let replace_dead_after = duration(section, "replace_dead_after", base.replace_dead_after);
    let heartbeat = duration(section, "heartbeat", base.heartbeat);
    let election_timeout = duration(section, "election_timeout", base.election_timeout);
    let claim_window = duration(section, "claim_window", base.claim_window);

    let order = Order { section, probe_period: &probe_period };
    order.fault_unless_below("probe_timeout", &probe_timeout, &probe_period, "probe_period", 1);
    order.fault_unless_below("heartbeat", &heartbeat, &election_timeout, "election_timeout", 3);
    order.warn_if_above("gossip_interval", &gossip_interval, "news would be slower than probes");
    order.warn_if_below_period(&suspicion_floor);
    if reap_after.value < replace_dead_after.value
        && (reap_after.is_given() || replace_dead_after.is_given())
    {
        let place =
            if reap_after.is_given() { &reap_after.place } else { &replace_dead_after.place };
        let message = format!(
            "found reap_after = \"{}\" below replace_dead_after = \"{}\"; a dead voter would be \
             forgotten before it is replaced",
            exact_duration(reap_after.value),
            exact_duration(replace_dead_after.value)
        );
        section.document.warn(place, message);
    }

    RingTiming {
        probe_period: probe_period.value,
        probe_timeout: probe_timeout.value,
        indirect_probes: number(section, "indirect_probes", base.indirect_probes, 0..=FANOUT_MAX),
        gossip_interval: gossip_interval.value,
        gossip_fanout: number(section, "gossip_fanout", base.gossip_fanout, 1..=FANOUT_MAX),
        suspicion_multiplier: number(
            section,
            "suspicion_multiplier",
            base.suspicion_multiplier,
            1..=SUSPICION_MULTIPLIER_MAX,
        ),
        suspicion_floor: suspicion_floor.value,
        reap_after: reap_after.value,
        reconnect_interval: reconnect_interval.value,
        restart_grace: restart_grace.value,
        max_packet: number(
            section,
            "max_packet",
            base.max_packet,
            PACKET_MIN_BYTES..=PACKET_MAX_BYTES,
        ),
        replace_dead_after: replace_dead_after.value,
        heartbeat: heartbeat.value,
        election_timeout: election_timeout.value,
        claim_window: claim_window.value,
    }
}

/// What must be shorter than what.
struct Order<'s, 'a> {
    section: &'s Section<'a>,
    probe_period: &'s Setting<Duration>,
}

impl Order<'_, '_> {
    /// A fault unless `times` × `short` fits into `long` (and is below it, for `times` = 1).
    fn fault_unless_below(
        &self,
        short_key: &str,
        short: &Setting<Duration>,
        long: &Setting<Duration>,
        long_key: &str,
        times: u32,
    ) {
        let product = short.value.saturating_mul(times);
        if product < long.value || (times > 1 && product == long.value) {
            return;
        }
        let place = if short.is_given() { &short.place } else { &long.place };
        let wanted = if times == 1 {
            format!("{short_key} must be below {long_key}")
        } else {
            format!("{long_key} of at least {times} × {short_key} is allowed")
        };
        let message = format!(
            "found {short_key} = \"{}\" with {long_key} = \"{}\"; {wanted}",
            exact_duration(short.value),
            exact_duration(long.value)
        );
        self.section.document.fault(place, message);
    }

    fn warn_if_above(&self, key: &str, found: &Setting<Duration>, effect: &str) {
        if found.value > self.probe_period.value {
            self.warn(key, found, "above", effect);
        }
    }

    fn warn_if_below_period(&self, floor: &Setting<Duration>) {
        if floor.value < self.probe_period.value {
            let effect = "a suspect could be declared dead before it is probed again";
            self.warn("suspicion_floor", floor, "below", effect);
        }
    }

    fn warn(&self, key: &str, found: &Setting<Duration>, side: &str, effect: &str) {
        let place = if found.is_given() { &found.place } else { &self.probe_period.place };
        let message = format!(
            "found {key} = \"{}\" {side} probe_period = \"{}\"; {effect}",
            exact_duration(found.value),
            exact_duration(self.probe_period.value)
        );
        self.section.document.warn(place, message);
    }
}

fn duration(section: &mut Section<'_>, key: &'static str, default: Duration) -> Setting<Duration> {
    section.read(key, default, |found| value::duration(found, PERIOD_MIN))
}

fn number<T>(
    section: &mut Section<'_>,
    key: &'static str,
    default: T,
    allowed: RangeInclusive<T>,
) -> T
where
    T: TryFrom<i64> + PartialOrd + std::fmt::Display,
{
    section.read(key, default, |found| value::integer(found, &allowed)).value
}

/// The ring's port, UDP and TCP.
const DEFAULT_PORT: u16 = 7117;
