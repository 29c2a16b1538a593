//! Stops and restarts on order, out of every phase.

use crate::script::check;

#[test]
fn stopping_works_in_every_phase() {
    check(
        "run 1 hooks
        > hook 1 pre_start of demo/1
        > changed
        halt
        > cancel hook 1
        > changed
        status
        > stopping unknown stopping
        hook 1 cancelled
        > stopped
        > changed",
    );
    check(
        "run 1 hooks
        > hook 1 pre_start of demo/1
        > changed
        hook 1 0
        > launch 2 demo/1
        halt
        > changed
        due
        > 30s
        status
        > stopping unknown stopping
        launched 2 10
        > halt 2 SIGTERM 20s
        > changed
        halted 2
        > hook 3 post_stop of demo/1
        > changed
        hook 3 0
        > stopped
        > changed",
    );
    check(
        "run 1
        > launch 1 demo/1
        > changed
        halt
        > changed
        launch-failed 1 no
        > stopped
        > changed",
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
        halt
        > cancel hook 3
        > halt 2 SIGTERM 20s
        > changed
        hook 3 cancelled
        halted 2
        > hook 4 post_stop of demo/1
        > changed
        hook 4 0
        > stopped
        > changed",
    );
    check(
        "run 1
        > launch 1 demo/1
        > changed
        launch-failed 1 no
        > start failed: could not be started: no
        > restart 1 within 100ms
        > changed
        halt
        > stopped
        > changed
        due
        > never",
    );
    check(
        "run 1
        > launch 1 demo/1
        > changed
        launched 1 10
        > started 10
        > changed
        exited 10 code 1
        > exited with code 1
        > halt 1 SIGKILL 0ms
        > restart 1 within 100ms
        > changed
        halt
        > changed
        status
        > stopping critical exited with code 1
        halted 1
        > stopped
        > changed",
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
        run 1
        > changed
        status
        > stopping unknown stopping
        halted 1
        > launch 2 demo/1
        > changed",
    );
}

#[test]
fn restarts_on_order_do_not_wait() {
    check(
        "restart
        run 1
        > launch 1 demo/1
        > changed
        launched 1 10
        > started 10
        > changed
        restart
        > halt 1 SIGTERM 20s
        > changed
        restart
        status
        > stopping unknown stopping, to be started again
        halted 1
        > launch 2 demo/1
        > changed
        launched 2 11
        > started 11
        > changed
        halt
        > halt 2 SIGTERM 20s
        > changed
        halted 2
        > stopped
        > changed
        restart
        > launch 3 demo/1
        > changed",
    );
    check(
        "run 1
        > launch 1 demo/1
        > changed
        launch-failed 1 no
        > start failed: could not be started: no
        > restart 1 within 100ms
        > changed
        restart
        > launch 2 demo/1
        > changed
        launch-failed 2 no
        > start failed: could not be started: no
        > restart 2 within 100ms
        > changed
        run 1
        run 2
        > launch 3 demo/2
        > changed",
    );
}
