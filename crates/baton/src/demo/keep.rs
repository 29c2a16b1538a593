//! What `--keep` leaves behind, and how to talk to it.
//!
//! Invariant: there is one command that ends all of it.

use super::GROUP;
use super::ground::write_script;
use super::stage::Stage;
use crate::exit::Failure;

/// Says how to talk to the ring and how to end it, and writes the script that does.
pub(crate) fn explain(stage: &mut Stage<'_>, stays: bool) -> Result<(), Failure> {
    let dir = stage.ground.dir.display().to_string();
    let program = stage.ground.program.display().to_string();
    let port = stage.ground.nodes.first().map_or(0, |node| node.port);
    // Whichever of the good ones does not run now.
    let other = if stage.observer.seen().on("2") == 0 { "web/2" } else { "web/1" };
    let script = stage.ground.dir.join("stop");
    let pids: Vec<String> = stage.fleet.pids().values().map(u32::to_string).collect();
    write_script(&script, &stop_script(&dir, &pids))?;
    let mut lines: Vec<String> = [
        "",
        "The ring goes on. To talk to it:",
        &format!("   export BATON_SOCKET={dir}/n1/sock   # any of the nodes"),
        &format!("   export BATON_DEPOT=file://{dir}/depot"),
        &format!("   export BATON_DEPOT_KEY={dir}/depot.key"),
        &format!("   alias baton={program}"),
        "   baton ring members",
        "   baton service list",
        &format!("   baton rollout status {GROUP} --watch"),
        &format!("   baton depot promote {other} --channel stable"),
        &format!("   curl http://127.0.0.1:{port}/"),
        &format!("Each daemon's log is {dir}/n*/log."),
    ]
    .map(ToOwned::to_owned)
    .to_vec();
    lines.push(match stays {
        true => "Its packets pass through this process: Ctrl-C ends all of it.".to_owned(),
        false => format!("To end it and remove everything: {}", script.display()),
    });
    stage.lines(&lines)
}

/// Ends the daemons, which end their services, and removes the directory.
fn stop_script(dir: &str, pids: &[String]) -> String {
    let pids = pids.join(" ");
    format!(
        "#!/bin/sh\n\
         # Ends the daemons of this demo, which end their services, and removes the demo.\n\
         dir='{dir}'\n\
         # Only what works in this directory is ours: a process id may be somebody else's by now.\n\
         ours() {{ case $(readlink \"/proc/$1/cwd\") in \"$dir\"/*) ;; *) return 1 ;; esac; }}\n\
         for pid in {pids}; do ours \"$pid\" && kill \"$pid\"; done\n\
         for pid in {pids}; do while ours \"$pid\"; do sleep 0.1; done; done\n\
         rm -rf \"$dir\"\n"
    )
}
