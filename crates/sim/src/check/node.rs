//! A node is in one turn at a time over all its groups: what runs on one machine is disrupted by one
//! turn, never by two.

use baton_rollout::MemberFile;
use baton_types::GroupName;

/// Needs no memory: where a turn stands is on the disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeCheck;

impl NodeCheck {
    /// A member's record is durable, beside those that its node has of other groups.
    ///
    /// # Errors
    ///
    /// Its turn disrupts while that of another group does.
    pub fn turn(
        self,
        file: &MemberFile,
        others: &[(&GroupName, MemberFile)],
    ) -> Result<(), String> {
        let disrupts =
            |file: &MemberFile| file.turn.as_ref().is_some_and(|turn| turn.stage.is_disrupting());
        let other = others.iter().find(|(_, other)| disrupts(other));
        match other.filter(|_| disrupts(file)) {
            Some((group, _)) => Err(format!("is disrupted by a turn beside one of {group}")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::samples::member_file;
    use baton_rollout::member::file::Stage;

    #[test]
    fn two_turns_of_one_node_are_seen() {
        let group: GroupName = "web.main".parse().expect("a group");
        for (one, other, fits) in [
            (Stage::Begun, Stage::Begun, false),
            (Stage::Monitoring, Stage::Started, false),
            (Stage::Begun, Stage::Installed, true),
            (Stage::Offered, Stage::Monitoring, true),
        ] {
            let [one, other] = [&one, &other].map(|stage| member_file(stage.clone()));
            assert_eq!(NodeCheck.turn(&one, &[(&group, other)]).is_ok(), fits);
        }
        assert_eq!(NodeCheck.turn(&member_file(Stage::Begun), &[]), Ok(()));
    }
}
