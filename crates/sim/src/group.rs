//! One group of the world: its part of the depot, and what the observer knows of it.

use baton_types::{Digest, GroupName, Name};

use crate::check::Checks;
use crate::depot::Depot;
use crate::settings::group_of;
use crate::world::World;

/// See the module's page. Hosts and groups are named by their places in the world.
pub(crate) struct Group {
    pub(crate) name: GroupName,
    pub(crate) depot: Depot,
    pub(crate) checks: Checks,
    /// Programs started so far: which release, on which host.
    pub(crate) launches: Vec<(usize, Digest)>,
}

impl Group {
    pub(crate) fn new(release: Name, hosts: usize) -> Self {
        Self {
            name: group_of(&release),
            depot: Depot::new(release),
            checks: Checks::new(hosts),
            launches: Vec::new(),
        }
    }
}

impl World {
    /// Every group by its place.
    pub(crate) fn all_groups(&self) -> std::ops::Range<usize> {
        0..self.groups.len()
    }

    /// The groups that a host carries.
    pub(crate) fn groups_on(&self, host: usize) -> impl Iterator<Item = usize> + '_ {
        self.all_groups().filter(move |group| self.setup.carries(host, *group))
    }

    /// The place of the group of that name.
    ///
    /// # Panics
    ///
    /// There is none: no node was told of another one.
    pub(crate) fn group_at(&self, name: &GroupName) -> usize {
        let at = self.groups.iter().position(|group| group.name == *name);
        at.expect("a group of the world")
    }

    /// The group that a file of a data directory belongs to, and what the file is.
    pub(crate) fn group_of_file<'a>(&self, file: &'a str) -> Option<(usize, &'a str)> {
        let (kind, name) = file.split_once('.')?;
        let group = self.groups.iter().position(|group| group.name.to_string() == name)?;
        Some((group, kind))
    }

    /// The group's name in front of words; nothing for the first one, which most worlds have alone.
    pub(crate) fn of_group(&self, group: usize) -> String {
        match group {
            FIRST => String::new(),
            _ => format!("{}: ", self.groups[group].name),
        }
    }

    /// The first group's part of the depot.
    pub fn depot(&mut self) -> &mut Depot {
        &mut self.groups[FIRST].depot
    }
}

/// The group that every world has.
pub(crate) const FIRST: usize = 0;
