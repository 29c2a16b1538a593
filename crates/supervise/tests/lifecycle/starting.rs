//! Starts and failures: hooks, crashes, back-off, answers that come late or never.

use crate::script::check;

#[test]
fn start_to_healthy_and_stop() {
    check(
        "run 1
        > launch 1 demo/1
        > changed
        status
        > starting unknown starting
        launched 1 10
        > started 10
        > changed
        due
        > 100ms
        tick
        > check 2 3s
        checked 2 critical connection refused
        status
        > starting unknown connection refused
        due
        > 100ms
        tick
        > check 3 3s
        checked 3 ok hello
        > first healthy
        > changed
        status
        > running ok hello
        due
        > 1s
        run 1
        halt
        > halt 1 SIGTERM 20s
        > changed
        exited 10 code 0
        > changed
        halted 1
        > stopped
        > changed
        status
        > stopped unknown stopped
        due
        > never
        halt
        > stopped",
    );
}

#[test]
fn every_hook_has_its_place() {
    check(
        "run 1 hooks
        > hook 1 pre_start of demo/1
        > changed
        launched 1 10
        hook 1 0
        > launch 2 demo/1
        launched 2 10
        > started 10
        > hook 3 post_start of demo/1
        > changed
        hook 3 0
        tick
        > check 4 3s
        checked 4 ok
        > first healthy
        > changed
        run 2 hooks
        > halt 2 SIGTERM 20s
        > changed
        exited 10 signal 15
        > changed
        halted 2
        > hook 5 post_stop of demo/1
        hook 5 0
        > hook 6 pre_start of demo/2
        > changed
        hook 6 0
        > launch 7 demo/2
        launched 7 11
        > started 11
        > hook 8 post_start of demo/2
        > changed",
    );
}

/// Also: exit 0 is a crash, a failing `post_stop` stops nothing, a minute of health begins anew.
#[test]
fn a_crash_is_cleaned_up_and_restarted_with_growing_waits() {
    check(
        "run 1 hooks
        > hook 1 pre_start of demo/1
        > changed
        hook 1 0
        > launch 2 demo/1
        launched 2 10
        > started 10
        > hook 3 post_start of demo/1
        > changed
        hook 3 0
        tick
        > check 4 3s
        checked 4 ok
        > first healthy
        > changed
        exited 10 code 3 cannot bind
        > exited with code 3: cannot bind
        > halt 2 SIGKILL 0ms
        > unhealthy critical: exited with code 3: cannot bind
        > restart 1 within 100ms
        > changed
        status
        > back-off critical exited with code 3: cannot bind
        halted 2
        > hook 5 post_stop of demo/1
        hook 5 1 busy
        > post_stop failed: post_stop exited with code 1: busy
        due
        > 98ms
        status
        > back-off critical exited with code 3: cannot bind
        tick
        > hook 6 pre_start of demo/1
        > changed
        status
        > starting unknown starting again; before: exited with code 3: cannot bind
        hook 6 0
        > launch 7 demo/1
        launched 7 11
        > started 11
        > hook 8 post_start of demo/1
        > changed
        exited 11 code 0
        > exited with code 0
        > cancel hook 8
        > halt 7 SIGKILL 0ms
        > restart 2 within 200ms
        > changed
        halted 7
        hook 8 cancelled
        > hook 9 post_stop of demo/1
        hook 9 0
        tick
        > hook 10 pre_start of demo/1
        > changed
        hook 10 0
        > launch 11 demo/1
        launched 11 12
        > started 12
        > hook 12 post_start of demo/1
        > changed
        hook 12 0
        tick
        > check 13 3s
        checked 13 ok
        > first healthy
        > changed
        wait 61000
        > check 14 3s
        exited 12 signal 9
        > was killed by signal 9 (SIGKILL)
        > halt 11 SIGKILL 0ms
        > unhealthy critical: was killed by signal 9 (SIGKILL)
        > restart 3 within 100ms
        > changed
        status
        > back-off critical was killed by signal 9 (SIGKILL)",
    );
}

#[test]
fn a_failing_start_is_tried_again() {
    check(
        "run 1 hooks
        > hook 1 pre_start of demo/1
        > changed
        hook 1 1 no space left
        > start failed: pre_start exited with code 1: no space left
        > restart 1 within 100ms
        > changed
        status
        > back-off critical pre_start exited with code 1: no space left
        due
        > 98ms
        tick
        > hook 2 pre_start of demo/1
        > changed
        hook 2 timed-out
        > start failed: pre_start did not end within 5s
        > restart 2 within 200ms
        > changed
        tick
        > hook 3 pre_start of demo/1
        > changed
        wait 15000
        > start failed: pre_start did not end within 5s
        > restart 3 within 400ms
        > changed
        halt
        > stopped
        > changed
        hook 4 0",
    );
    check(
        "run 1 hooks
        > hook 1 pre_start of demo/1
        > changed
        hook 1 0
        > launch 2 demo/1
        launched 2 10
        > started 10
        > hook 3 post_start of demo/1
        > changed
        hook 3 2 no master
        > start failed: post_start exited with code 2: no master
        > halt 2 SIGTERM 20s
        > restart 1 within 100ms
        > changed
        status
        > back-off critical post_start exited with code 2: no master
        halted 2
        > hook 4 post_stop of demo/1
        > changed
        hook 4 0
        status
        > back-off critical post_start exited with code 2: no master",
    );
    check(
        "run 1
        > launch 1 demo/1
        > changed
        launch-failed 1 bin/demo: no such file
        > start failed: could not be started: bin/demo: no such file
        > restart 1 within 100ms
        > changed
        status
        > back-off critical could not be started: bin/demo: no such file
        tick
        > launch 2 demo/1
        > changed
        wait 30000
        > start failed: was not started within 30s
        > halt 2 SIGTERM 20s
        > restart 2 within 200ms
        > changed
        launched 2 10
        > changed
        halted 2
        > changed",
    );
}

#[test]
fn late_and_foreign_answers_are_ignored() {
    check(
        "run 1
        > launch 1 demo/1
        > changed
        launched 9 9
        launched 1 10
        > started 10
        > changed
        launched 1 12
        exited 12 code 1
        halted 5
        checked 1 ok
        hook 1 0
        launch-failed 1 x
        tick
        > check 2 3s
        exited 10 code 1
        > exited with code 1
        > halt 1 SIGKILL 0ms
        > restart 1 within 100ms
        > changed
        checked 2 ok late
        exited 10 code 1
        halted 1",
    );
}

#[test]
fn a_lost_answer_stops_nothing_for_ever() {
    check(
        "run 1
        > launch 1 demo/1
        > changed
        launched 1 10
        > started 10
        > changed
        tick
        > check 2 3s
        due
        > 13s
        check
        tick
        > check 3 3s
        > changed
        status
        > starting unknown did not answer within 3s
        checked 2 ok",
    );
    check(
        "run 1
        > launch 1 demo/1
        > changed
        launched 1 10
        > started 10
        > changed
        halt
        > halt 1 SIGTERM 20s
        > changed
        due
        > 30s
        tick
        > halt 1 SIGKILL 0ms
        due
        > 10s
        tick
        > halt 1 SIGKILL 0ms
        halted 1
        > stopped
        > changed",
    );
}
