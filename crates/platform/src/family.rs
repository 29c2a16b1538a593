//! Everything that one launch started, and the end of it.
//!
//! A process belongs to the family if it is in the launch's cgroup, in the main process's
//! session, a descendant of a member, or carries the launch's marker in its environment. Each of
//! the four can be left by a program (cgroups need not be there, setsid leaves the session, a
//! parent that exits cuts the chain, a program may overwrite its environment); all four together
//! are left only on purpose. Invariant: only (pid, start time) is ever killed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::cgroup::Cgroup;
use crate::limits::{KILL_PAUSE, KILL_ROUNDS};
use crate::procfs::{self, Entry, Stat, Table};

/// The processes of one launch.
#[derive(Clone, Debug)]
pub struct Family {
    /// The marker's value, see [`MARKER`].
    pub instance: String,
    /// Its cgroup, if one could be made.
    pub cgroup: Option<Cgroup>,
    /// The main process as (pid, start time), if it is known not to have been replaced: it was
    /// watched from its start or adoption until its end.
    pub main: Option<(u32, u64)>,
    /// Whether orphans of the family become children of this process, so that nothing of it can
    /// be outside our own descendants.
    pub is_ours: bool,
}

/// Processes that SIGKILL did not end: they hang in the kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("processes {pids:?} do not die")]
pub struct Survivors {
    /// Their pids.
    pub pids: Vec<u32>,
}

impl Family {
    /// Kills every living member, again and again until two looks in a row find none; how many
    /// were killed. Blocks.
    pub fn kill(&self) -> Result<usize, Survivors> {
        let mut seen = BTreeSet::new();
        let mut empty_looks = 0;
        let mut doubts = 0;
        let mut last = Vec::new();
        for round in 0..KILL_ROUNDS {
            // The kernel's lists of children may miss one while another one dies, so the look that
            // decides goes over everything, unless a cgroup keeps an exact list.
            let everywhere = !self.is_ours || (empty_looks == 1 && self.cgroup.is_none());
            let look = self.look(&seen, everywhere);
            last = look.members;
            if last.is_empty() {
                if look.is_sure || doubts == DOUBTS_MAX {
                    empty_looks += 1;
                } else {
                    doubts += 1;
                }
                if empty_looks == 2 {
                    if let Some(cgroup) = &self.cgroup {
                        cgroup.remove();
                    }
                    return Ok(seen.len());
                }
                if !look.is_sure {
                    std::thread::sleep(DOUBT_PAUSE);
                }
                continue;
            }
            empty_looks = 0;
            if let Some(cgroup) = &self.cgroup {
                cgroup.kill();
            }
            for member in &last {
                procfs::kill_exact(member);
                seen.insert((member.pid, member.start_time));
            }
            // Death takes less than a millisecond, unless much memory has to be given back.
            std::thread::sleep(if round < 10 { Duration::from_millis(1) } else { KILL_PAUSE });
        }
        Err(Survivors { pids: last.iter().map(|member| member.pid).collect() })
    }

    /// One pass over the family without waiting for anybody's death, for when nobody can wait.
    pub fn kill_once(&self) {
        for member in self.look(&BTreeSet::new(), !self.is_ours).members {
            procfs::kill_exact(&member);
        }
    }

    /// Whether `pid` is a member, as far as can be told cheaply.
    pub fn has(&self, pid: u32) -> bool {
        let Some(stat) = Stat::read(pid) else { return false };
        self.is_session_of(&stat)
            || matches!(self.marker_of(pid), Entry::Found(_))
            || self.in_cgroup().contains(&pid)
    }

    /// The living members; `seen` are known ones, whose children belong to the family too.
    fn look(&self, seen: &BTreeSet<(u32, u64)>, everywhere: bool) -> Look {
        let table = if everywhere { procfs::all() } else { procfs::descendants() };
        let Table { processes: mut table, has_gaps } = table.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot list processes");
            Table::default()
        });
        let in_cgroup = self.in_cgroup();
        for pid in &in_cgroup {
            if let Some(stat) = Stat::read(*pid) {
                table.entry(*pid).or_insert(stat);
            }
        }
        table.remove(&std::process::id());
        table.remove(&1);
        let stranger_leads = self.main.is_some_and(|(pid, start_time)| {
            Stat::read(pid).is_some_and(|leader| leader.start_time != start_time)
        });
        let mut members = BTreeSet::new();
        let mut is_sure = !has_gaps;
        for stat in table.values().filter(|stat| !stat.is_zombie) {
            let known = seen.contains(&(stat.pid, stat.start_time))
                || self.main == Some((stat.pid, stat.start_time))
                || in_cgroup.contains(&stat.pid)
                || (!stranger_leads && self.is_session_of(stat));
            let is_member = known
                || match self.marker_of(stat.pid) {
                    Entry::Found(_) => true,
                    Entry::Absent => false,
                    Entry::Unknown => {
                        is_sure = false;
                        false
                    }
                };
            if is_member {
                members.insert(stat.pid);
            }
        }
        add_descendants(&table, &mut members);
        let members = members
            .iter()
            .filter_map(|pid| table.get(pid).copied())
            .filter(|stat| !stat.is_zombie)
            .collect();
        // A cgroup's list is exact.
        Look { members, is_sure: is_sure || self.cgroup.is_some() }
    }

    fn in_cgroup(&self) -> BTreeSet<u32> {
        self.cgroup.as_ref().map(|cgroup| cgroup.pids().into_iter().collect()).unwrap_or_default()
    }

    fn is_session_of(&self, stat: &Stat) -> bool {
        self.main.is_some_and(|(pid, _)| stat.session == pid)
    }

    fn marker_of(&self, pid: u32) -> Entry {
        let entry = format!("{MARKER}={}", self.instance);
        procfs::environ_entry(pid, |found| found == entry.as_bytes())
    }
}

/// One look at a family.
struct Look {
    members: Vec<Stat>,
    /// Nothing escaped it: no process ended or changed its program under the eyes of the look. One
    /// that did may be a link of a chain whose next link came too late to be seen.
    is_sure: bool,
}

/// Every living process whose marker begins with `prefix`, with its marker's value. Blocks.
pub fn marked(prefix: &str) -> Vec<(Stat, String)> {
    let entry = format!("{MARKER}={prefix}");
    let mut found = Vec::new();
    for _ in 0..DOUBTS_MAX {
        let Table { processes, has_gaps } = procfs::all().unwrap_or_default();
        let mut is_sure = !has_gaps;
        found.clear();
        for stat in processes.values() {
            if stat.is_zombie || stat.pid == std::process::id() {
                continue;
            }
            match procfs::environ_entry(stat.pid, |e| e.starts_with(entry.as_bytes())) {
                Entry::Found(marker) => {
                    let value = marker.get(MARKER.len() + 1..).unwrap_or_default();
                    found.push((*stat, value.to_owned()));
                }
                Entry::Absent => {}
                Entry::Unknown => is_sure = false,
            }
        }
        if is_sure {
            break;
        }
        std::thread::sleep(DOUBT_PAUSE);
    }
    found
}

fn add_descendants(table: &BTreeMap<u32, Stat>, members: &mut BTreeSet<u32>) {
    loop {
        let more: Vec<u32> = table
            .values()
            .filter(|stat| members.contains(&stat.parent) && !members.contains(&stat.pid))
            .map(|stat| stat.pid)
            .collect();
        if more.is_empty() {
            return;
        }
        members.extend(more);
    }
}

/// The environment variable that every launch carries, with a value of its own.
pub const MARKER: &str = "BATON_INSTANCE";

/// Looks that may be repeated because something escaped them: on a machine where processes come and
/// go all the time none is ever sure, and a stop must end.
const DOUBTS_MAX: u32 = 50;

/// What changes its program at one look has done so at the next one.
const DOUBT_PAUSE: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_followed_to_any_depth() {
        let stat = |pid, parent| {
            let (is_zombie, is_bare) = (false, false);
            (pid, Stat { pid, parent, session: 1, start_time: 1, is_zombie, is_bare })
        };
        let table = BTreeMap::from([stat(5, 9), stat(9, 7), stat(7, 1), stat(6, 1), stat(8, 5)]);
        let mut members = BTreeSet::from([7]);
        add_descendants(&table, &mut members);
        assert_eq!(members, BTreeSet::from([5, 7, 8, 9]));
    }

    #[test]
    fn nobody_is_killed_by_an_unknown_marker() {
        let family =
            Family { instance: "no-such".into(), cgroup: None, main: None, is_ours: false };
        assert_eq!(family.kill(), Ok(0));
        assert!(!family.has(std::process::id()));
    }
}
