//! Health: thresholds, rhythm, programs without a check, adopted ones.

use crate::script::check;

#[test]
fn thresholds_count_in_a_row() {
    check(
        "run 1 thrice
        > launch 1 demo/1
        > changed
        launched 1 10
        > started 10
        > changed
        next
        > check 2 3s
        checked 2 ok a
        status
        > starting unknown passed 1 of 3: a
        due
        > 1s
        next
        > check 3 3s
        checked 3 critical b
        due
        > 100ms
        next
        > check 4 3s
        checked 4 ok
        next
        > check 5 3s
        checked 5 ok
        next
        > check 6 3s
        checked 6 warning w
        > first healthy
        > changed
        status
        > running warning w
        next
        > check 7 3s
        checked 7 critical c
        status
        > running warning failed 1 of 3: c
        next
        > check 8 3s
        checked 8 critical d
        next
        > check 9 3s
        checked 9 unknown e
        > unhealthy unknown: e
        > changed
        status
        > running unknown e
        due
        > 1s
        next
        > check 10 3s
        checked 10 ok f
        status
        > running unknown passed 1 of 3: f
        next
        > check 11 3s
        checked 11 ok
        next
        > check 12 3s
        checked 12 ok g
        > healthy
        > changed
        status
        > running ok g
        next
        > check 13 3s
        checked 13 warning h
        > changed
        next
        > check 14 3s
        checked 14 critical i
        next
        > check 15 3s
        checked 15 ok j
        > changed
        status
        > running ok j",
    );
}

#[test]
fn checks_are_quick_until_first_healthy() {
    check(
        "run 1 slow
        > launch 1 demo/1
        > changed
        launched 1 10
        > started 10
        > changed
        tick
        > check 2 3s
        checked 2 critical a
        due
        > 100ms
        tick
        > check 3 3s
        checked 3 critical a
        due
        > 200ms
        tick
        > check 4 3s
        checked 4 critical a
        due
        > 400ms
        tick
        > check 5 3s
        checked 5 critical a
        due
        > 800ms
        tick
        > check 6 3s
        checked 6 critical b
        due
        > 400ms",
    );
}

#[test]
fn a_check_can_be_asked_for() {
    check(
        "check
        run 1
        > launch 1 demo/1
        > changed
        check
        launched 1 10
        > started 10
        > changed
        check
        > check 2 3s
        check
        checked 2 ok
        > first healthy
        > check 3 3s
        > changed
        checked 3 ok
        due
        > 1s
        check
        > check 4 3s
        halt
        > halt 1 SIGTERM 20s
        > changed
        check",
    );
}

#[test]
fn without_a_check_running_or_ready_counts() {
    check(
        "run 1 nocheck
        > launch 1 demo/1
        > changed
        launched 1 10
        > started 10
        > changed
        check
        due
        > 30s
        status
        > starting unknown starting
        tick
        > first healthy
        > changed
        status
        > running ok has run for 30s
        due
        > never",
    );
    check(
        "run 1 nocheck
        > launch 1 demo/1
        > changed
        launched 1 10
        > started 10
        > changed
        says x loading 3 of 5
        status
        > starting unknown loading 3 of 5
        due
        > 2s
        says READY=1 serving
        > first healthy
        > changed
        status
        > running ok serving
        says x busy
        status
        > running ok busy
        exited 10 code 1
        > exited with code 1
        > halt 1 SIGKILL 0ms
        > unhealthy critical: exited with code 1
        > restart 1 within 100ms
        > changed
        halted 1
        tick
        > launch 2 demo/1
        > changed
        launched 2 11
        > started 11
        > changed
        due
        > never
        says READY=1
        > first healthy
        > changed",
    );
    check(
        "run 1 nocheck
        > launch 1 demo/1
        > changed
        says READY=1
        launched 1 10
        > started 10
        > first healthy
        > changed
        status
        > running ok said READY=1",
    );
    check(
        "run 1
        > launch 1 demo/1
        > changed
        launched 1 10
        > started 10
        > changed
        says READY=1 up
        status
        > starting unknown starting",
    );
}

#[test]
fn an_adopted_program_runs_and_is_checked_at_once() {
    check(
        "adopt 1 1
        > check 2 3s
        > changed
        status
        > running unknown taken over, not checked yet
        exited 7 unknown 0
        > exit status unknown (it ended while the daemon was away)
        > halt 1 SIGKILL 0ms
        > restart 1 within 100ms
        > changed",
    );
    check(
        "adopt 1 1 thrice
        > check 2 3s
        > changed
        adopt - 1
        checked 2 ok
        next
        > check 3 3s
        checked 3 critical a
        next
        > check 4 3s
        checked 4 critical b
        next
        > check 5 3s
        checked 5 critical c
        > unhealthy critical: c
        > changed
        status
        > running critical c
        halt
        > halt 1 SIGTERM 20s
        > changed
        halted 1
        > stopped
        > changed",
    );
    check(
        "adopt 1 1 nocheck
        > changed
        tick
        > first healthy
        > changed
        status
        > running ok has run for 1s
        run 1 nocheck
        exited 7 unknown 0
        > exit status unknown (it ended while the daemon was away)
        > halt 1 SIGKILL 0ms
        > unhealthy critical: exit status unknown (it ended while the daemon was away)
        > restart 1 within 100ms
        > changed
        halted 1
        tick
        > launch 2 demo/1
        > changed",
    );
    check(
        "adopt 1 1
        > check 2 3s
        > changed
        wait 5000
        exited 7 unknown 0
        > exit status unknown (it was started before this daemon)
        > halt 1 SIGKILL 0ms
        > restart 1 within 100ms
        > changed",
    );
}

#[test]
fn texts_alone_are_announced_rarely() {
    check(
        "run 1
        > launch 1 demo/1
        > changed
        launched 1 10
        > started 10
        > changed
        tick
        > check 2 3s
        checked 2 critical a
        tick
        > check 3 3s
        checked 3 critical b
        wait 1700
        > check 4 3s
        checked 4 critical c
        due
        > 100ms
        tick
        > changed
        next
        > check 5 3s
        checked 5 ok d
        > first healthy
        > changed
        next
        > check 6 3s
        checked 6 ok e
        status
        > running ok e
        due
        > 1s",
    );
}

#[test]
fn after_a_standstill_the_health_is_unknown_until_it_was_checked() {
    check(
        "run 1
        > launch 1 demo/1
        > changed
        launched 1 10
        > started 10
        > changed
        stand-still 60000
        > check 2 3s
        checked 2 ok a
        > first healthy
        > changed
        stand-still 2000
        > check 3 3s
        checked 3 ok b
        stand-still 2001
        > health unknown
        > check 4 3s
        > changed
        checked 4 ok c
        > healthy
        > changed
        next
        > check 5 3s
        stand-still 4001
        > health unknown
        > check 6 3s
        > changed
        checked 5 ok late
        checked 6 critical d
        > unhealthy critical: d
        > changed
        stand-still 60000
        > check 7 3s
        status
        > running critical d",
    );
}

#[test]
fn after_a_standstill_the_thresholds_are_the_same() {
    check(
        "run 1 thrice
        > launch 1 demo/1
        > changed
        launched 1 10
        > started 10
        > changed
        next
        > check 2 3s
        checked 2 ok
        next
        > check 3 3s
        checked 3 ok
        next
        > check 4 3s
        checked 4 ok
        > first healthy
        > changed
        stand-still 2001
        > health unknown
        > check 5 3s
        > changed
        checked 5 ok a
        status
        > running unknown passed 1 of 3: a
        next
        > check 6 3s
        checked 6 critical b
        status
        > running unknown failed 1 of 3: b
        next
        > check 7 3s
        checked 7 critical c
        next
        > check 8 3s
        checked 8 critical d
        > unhealthy critical: d
        > changed",
    );
}
