//! The main job, end to end: a Redis Cluster on six hosts is rolled from one release to the next,
//! one member at a time, while a client writes.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may fail loudly")]

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use baton_tests::redis_fleet::{GROUP, RedisFleet};
use baton_tests::redis_releases::{MEMORY_1, MEMORY_2, RELEASE_2, RELEASE_BROKEN};
use baton_tests::requirements::fleet_can_run;
use baton_tests::wait;

const PROGRAMS: [&str; 2] = ["redis-server", "redis-cli"];
/// Release 1 under a new version: a third target that differs from release 2.
const RELEASE_3: &str = "7.0.15-3";

/// Two fleets at once would only take the processor from each other.
fn one_fleet_at_a_time() -> MutexGuard<'static, ()> {
    static FLEET: Mutex<()> = Mutex::new(());
    FLEET.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn releases_roll_stop_and_go_back_one_member_at_a_time() {
    if !fleet_can_run("releases_roll_stop_and_go_back_one_member_at_a_time", &PROGRAMS) {
        return;
    }
    let _alone = one_fleet_at_a_time();
    let mut redis = RedisFleet::install();

    a_good_release_reaches_all_six(&redis);
    a_bad_release_stops_at_the_first(&redis);
    a_rollback_heals_it(&redis);
    a_pause_on_one_host_stops_the_next_turn_of_another(&redis);

    redis.expect_one_down_at_most();
    redis.expect_nothing_lost();
}

#[test]
fn killed_daemons_neither_stop_a_rollout_nor_the_servers() {
    if !fleet_can_run("killed_daemons_neither_stop_a_rollout_nor_the_servers", &PROGRAMS) {
        return;
    }
    let _alone = one_fleet_at_a_time();
    let mut redis = RedisFleet::install();

    // The leader's daemon dies while another member is in its turn.
    let begin = redis.observer().mark();
    redis.promote(RELEASE_2, 0);
    let leader =
        Victim::kill_in_turn(&mut redis, |leader, in_turn| (leader != in_turn).then_some(leader));
    leader.restart_and_watch(&mut redis);
    redis.expect_all_on(RELEASE_2, MEMORY_2);
    redis.expect_one_restart_each(begin);

    // The daemon of the member in its turn dies.
    redis.releases().publish_first_as(RELEASE_3);
    let begin = redis.observer().mark();
    redis.promote(RELEASE_3, 0);
    let member =
        Victim::kill_in_turn(&mut redis, |leader, in_turn| (leader != in_turn).then_some(in_turn));
    member.restart_and_watch(&mut redis);
    redis.expect_all_on(RELEASE_3, MEMORY_1);
    redis.expect_one_restart_each(begin);

    redis.expect_one_down_at_most();
    redis.expect_nothing_lost();
}

fn a_good_release_reaches_all_six(redis: &RedisFleet) {
    let begin = redis.observer().mark();
    redis.promote(RELEASE_2, 3);
    assert_eq!(redis.watch(3), 0, "exit code of a rollout that completed");
    redis.expect_all_on(RELEASE_2, MEMORY_2);
    redis.expect_one_down_at_most();
    redis.expect_one_restart_each(begin);
    redis.wait_for_writes();
}

fn a_bad_release_stops_at_the_first(redis: &RedisFleet) {
    let begin = redis.observer().mark();
    redis.promote(RELEASE_BROKEN, 1);
    assert_eq!(redis.watch(1), 11, "exit code of a rollout that was paused");
    let status = redis.status(5).unwrap();
    assert_eq!(status["rollout"]["state"], "paused", "{status:#}");
    assert_eq!(status["rollout"]["failures"], 1, "{status:#}");
    // Long enough for a second member to be touched by mistake.
    std::thread::sleep(Duration::from_secs(5));
    let touched = redis.observer().touched_since(begin);
    assert_eq!(touched.len(), 1, "exactly one member is touched: {touched:?}");
    redis.wait_for_writes();
}

fn a_rollback_heals_it(redis: &RedisFleet) {
    redis.type_at(4, &["rollout", "rollback", GROUP, "--wait"]).expect_code(0);
    redis.expect_all_on(RELEASE_2, MEMORY_2);
    redis.expect_one_down_at_most();
    redis.wait_for_writes();
}

fn a_pause_on_one_host_stops_the_next_turn_of_another(redis: &RedisFleet) {
    redis.releases().publish_first_as(RELEASE_3);
    let begin = redis.observer().mark();
    redis.promote(RELEASE_3, 2);
    let in_turn = redis.wait_for_turn(2, |_, in_turn| Some(in_turn));
    let other = (in_turn + 1) % 6;
    redis.type_at(other, &["rollout", "pause", GROUP]).expect_code(0);
    // From here on no turn may begin; the one under way ends.
    let mut allowed = redis.observer().touched_since(begin);
    allowed.insert(in_turn);
    wait::until("the end of the turn under way", Duration::from_secs(60), || {
        let status = redis.status(other)?;
        if redis.in_turn(&status).is_none() { Ok(()) } else { Err(status.to_string()) }
    });
    let quiet = Instant::now() + Duration::from_secs(6);
    while Instant::now() < quiet {
        let touched: BTreeSet<usize> = redis.observer().touched_since(begin);
        assert!(touched.is_subset(&allowed), "{touched:?} touched, only {allowed:?} may be");
        std::thread::sleep(Duration::from_millis(100));
    }
    let status = redis.status(other).unwrap();
    assert_eq!(status["rollout"]["state"], "paused", "{status:#}");

    redis.type_at((other + 1) % 6, &["rollout", "resume", GROUP]).expect_code(0);
    assert_eq!(redis.watch(other), 0, "exit code after the pause");
    redis.expect_all_on(RELEASE_3, MEMORY_1);
    redis.expect_one_restart_each(begin);
}

/// A host whose daemon was killed during a turn.
struct Victim(usize);

impl Victim {
    /// Waits for a turn in which `choose(leader, member in turn)` names a host, and kills that
    /// host's daemon. The first host is asked, so it may be chosen as well.
    fn kill_in_turn(
        redis: &mut RedisFleet,
        choose: impl Fn(usize, usize) -> Option<usize>,
    ) -> Self {
        let victim = redis.wait_for_turn(0, choose);
        redis.fleet().host(victim).kill();
        Self(victim)
    }

    /// Starts its daemon again a little later, and watches the rollout at another host to its end.
    fn restart_and_watch(self, redis: &mut RedisFleet) {
        std::thread::sleep(Duration::from_secs(3));
        redis.fleet().host(self.0).start();
        assert_eq!(redis.watch((self.0 + 1) % 6), 0, "exit code of a rollout that completed");
    }
}
