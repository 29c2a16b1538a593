//! Booted machines `n1`, `n2`, … on one bridge, each with the package installed and configured by files
//! alone, and a depot that all of them see as `/srv/depot`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use toml::Table;

use crate::cli::baton;
use crate::depot::Depot;
use crate::fleet::RING_PORT;
use crate::machine_root::Base;
use crate::{Fleet, Machine, wait};

/// The machines of one group.
pub struct MachineFleet {
    // Ended before the network that they stand in.
    machines: Vec<Machine>,
    fleet: Fleet,
    group: String,
}

impl MachineFleet {
    /// Boots `count` machines and installs `deb` in each. `service` is the service file of the machine
    /// with that index, whose depot and keys are filled in here; a depot is there already, below
    /// [`Fleet::dir`].
    pub fn install(
        fleet: Fleet,
        base: &Base,
        deb: &Path,
        service: impl Fn(usize) -> Table,
    ) -> Self {
        let key = fleet.dir().join("ring.key");
        baton(&["ring", "keygen", "--out", &key.display().to_string()]);
        let name = service(0)["name"].as_str().expect("the name of a service").to_owned();
        let mut machines = Vec::new();
        for index in 0..fleet.len() {
            let namespace = fleet.namespace(index).name();
            let mut machine = Machine::within(base, namespace, &fleet.dir().join("depot.d"));
            let root = machine.root().to_owned();
            fs::copy(deb, root.join("root/baton.deb")).expect("the package");
            machine.boot();
            machine.ok(&["dpkg", "-i", "/root/baton.deb"]);
            let put = |path: &str, text: &[u8]| {
                let path = root.join(path);
                fs::write(&path, text)
                    .unwrap_or_else(|fault| panic!("{}: {fault}", path.display()));
            };
            let mut service = service(index);
            service.insert("depot".to_owned(), "file:///srv/depot".into());
            let keys = vec!["/etc/baton/depot.pub".into()];
            service.insert("trusted_keys".to_owned(), toml::Value::Array(keys));
            let text = toml::to_string(&service).expect("a table is TOML");
            put(&format!("etc/baton/services.d/{name}.toml"), text.as_bytes());
            put("etc/baton/depot.pub", &fs::read(fleet.dir().join("depot.pub")).expect("a key"));
            put("etc/baton/ring.key", &fs::read(&key).expect("the ring's key"));
            let mode = fs::Permissions::from_mode(0o600);
            fs::set_permissions(root.join("etc/baton/ring.key"), mode).expect("a secret key");
            put("etc/baton/baton.toml", config(index, fleet.len()).as_bytes());
            machine.ok(&["baton", "check"]);
            machine.ok(&["systemctl", "restart", "baton"]);
            machines.push(machine);
        }
        Self { machines, fleet, group: format!("{name}.default") }
    }

    /// The network that they stand in.
    pub fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// All machines.
    pub fn machines(&self) -> &[Machine] {
        &self.machines
    }

    /// The machine with this index (from 0).
    pub fn machine(&mut self, index: usize) -> &mut Machine {
        &mut self.machines[index]
    }

    /// Their depot.
    pub fn depot(&self) -> Depot {
        Depot::at(self.fleet.dir())
    }

    /// Publishes a release of these files; those below `bin` can be run.
    pub fn publish(&self, manifest: &str, files: &[(&str, &str)]) {
        let manifest_table: Table = manifest.parse().expect("a manifest");
        let version = manifest_table["version"].as_str().expect("its version");
        let folder = self.fleet.dir().join("releases").join(version);
        for (path, text) in files.iter().chain([&("release.toml", manifest)]) {
            let path: PathBuf = folder.join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder of a release");
            fs::write(&path, text).expect("a file of a release");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its mode");
        }
        self.depot().publish(&folder);
    }

    /// The rollout's status, asked at a machine that is on.
    pub fn status(&self) -> Result<Value, String> {
        let on = self.machines.iter().find(|machine| machine.is_on()).ok_or("all are off")?;
        let answer = on.run(&["baton", "rollout", "status", &self.group, "--json"]);
        match answer.code {
            0 => serde_json::from_str(&answer.stdout).map_err(|fault| format!("{fault}: {answer}")),
            _ => Err(answer.to_string()),
        }
    }

    /// Waits for an answer; machines that ask for a reboot get it meanwhile. How many did.
    pub fn wait(
        &mut self,
        what: &str,
        limit: Duration,
        mut question: impl FnMut(&Self) -> Result<(), String>,
    ) -> usize {
        let (mut reboots, end) = (0, Instant::now() + limit);
        loop {
            reboots +=
                self.machines.iter_mut().filter_map(|m| m.follow_reboot().then_some(())).count();
            match question(self) {
                Ok(()) => return reboots,
                Err(found) if Instant::now() >= end => {
                    panic!("{what}: not within {limit:?}; last found: {found}")
                }
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Waits until the rollout to `release` is complete; how many machines were rebooted for it.
    pub fn completed(&mut self, release: &str) -> usize {
        let reboots = self.wait(&format!("a rollout to {release}"), ROLLOUT, |fleet| {
            let status = fleet.status()?;
            let rollout = &status["rollout"];
            assert_ne!(rollout["state"], "paused", "{status:#}");
            let done = rollout["to"]["release"] == release && rollout["state"] == "completed";
            if done { Ok(()) } else { Err(status.to_string()) }
        });
        self.expect_all_on(release);
        reboots
    }

    /// Waits until every member runs `release` and is healthy, which a warning is, too.
    pub fn expect_all_on(&self, release: &str) {
        wait::until(&format!("healthy members on {release}"), ROLLOUT, || {
            let answer = self.machines[0].run(&["baton", "service", "list", "--json"]);
            let list: Value =
                serde_json::from_str(&answer.stdout).map_err(|_| answer.to_string())?;
            let serves = |one: &Value| one["health"] == "ok" || one["health"] == "warning";
            let good = |one: &&Value| one["release"] == release && serves(one);
            let good = list.as_array().map_or(0, |list| list.iter().filter(good).count());
            if good == self.machines.len() { Ok(()) } else { Err(format!("{list:#}")) }
        });
    }

    /// Waits until the member on this machine says of itself that it is healthy.
    pub fn expect_healthy(&self, index: usize) {
        let name = format!("n{}", index + 1);
        wait::until(&format!("{name} is healthy"), ROLLOUT, || {
            let said = self.machines[index].run(&["baton", "service", "list", "--json"]).stdout;
            let list: Value = serde_json::from_str(&said).map_err(|_| said.clone())?;
            let mut all = list.as_array().into_iter().flatten();
            let good = all.any(|one| one["name"] == name.as_str() && one["health"] == "ok");
            if good { Ok(()) } else { Err(said) }
        });
    }

    /// The index of the member in the middle of its turn.
    pub fn in_turn(&self) -> Result<usize, String> {
        let status = self.status()?;
        let members = status["rollout"]["members"].as_array().ok_or("no rollout")?;
        let busy = |m: &&Value| m["turn"] == "taken" || m["turn"] == "monitoring";
        let member = members.iter().find(busy).ok_or_else(|| status.to_string())?;
        Ok(self.fleet.index_of(member["name"].as_str().unwrap_or_default()))
    }
}

fn config(index: usize, count: usize) -> String {
    let addr = |index: usize| format!("\"{}:{RING_PORT}\"", Fleet::addr(index));
    let others = (0..count).filter(|other| *other != index).map(addr);
    let join = others.collect::<Vec<_>>().join(", ");
    format!(
        "[node]\nname = \"n{}\"\n[ring]\nbind = {}\njoin = [{join}]\nprofile = \"lan\"\n\
         key_file = \"/etc/baton/ring.key\"\n",
        index + 1,
        addr(index)
    )
}

/// Turns of some seconds, with reboots, on a busy machine.
const ROLLOUT: Duration = Duration::from_secs(600);
const PAUSE: Duration = Duration::from_millis(50);
