//! The update policy of a group: what `[update]` and `[rollback]` of a service file say.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A number of members, or a share of a total.
///
/// The three ways to read it differ on purpose: a budget rounds down (but is never 0, or nothing
/// could ever be updated), a threshold compares exactly in integers, a wave rounds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Limit {
    /// This many.
    Count(u32),
    /// 0 to 100 percent of the total.
    Percent(u8),
}

impl Limit {
    /// How many members may be unavailable at once in a group of `total`: at least 1.
    pub fn budget(self, total: usize) -> usize {
        match self {
            Self::Count(count) => (count as usize).max(1),
            Self::Percent(percent) => (total * usize::from(percent) / 100).max(1),
        }
    }

    /// Whether `failures` out of `total` are strictly more than this allows.
    pub fn exceeded_by(self, failures: usize, total: usize) -> bool {
        match self {
            Self::Count(count) => failures > count as usize,
            Self::Percent(percent) => failures * 100 > usize::from(percent) * total,
        }
    }

    /// How many members in all have had their turn when this wave of `total` ends.
    pub fn wave_end(self, total: usize) -> usize {
        match self {
            Self::Count(count) => (count as usize).min(total),
            Self::Percent(percent) => (total * usize::from(percent)).div_ceil(100),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// A text that is no limit. No state changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither a number nor a share like \"25%\" (0% to 100%)")]
pub struct LimitError(String);

impl FromStr for Limit {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        let error = || LimitError(text.chars().take(32).collect());
        let (digits, percent) = match text.strip_suffix('%') {
            Some(digits) => (digits, true),
            None => (text, false),
        };
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(error());
        }
        let number: u32 = digits.parse().map_err(|_| error())?;
        match (percent, u8::try_from(number)) {
            (false, _) => Ok(Self::Count(number)),
            (true, Ok(share)) if share <= 100 => Ok(Self::Percent(share)),
            (true, _) => Err(error()),
        }
    }
}

impl TryFrom<String> for Limit {
    type Error = LimitError;

    fn try_from(text: String) -> Result<Self, LimitError> {
        text.parse()
    }
}

impl From<Limit> for String {
    fn from(limit: Limit) -> Self {
        limit.to_string()
    }
}

macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$case_doc:meta])* $case:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$case_doc])* $case),+ }

        impl $name {
            /// Every choice with its word in the configuration.
            pub const ALL: &'static [(Self, &'static str)] = &[$((Self::$case, $text)),+];

            /// The word in the configuration.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$case => $text),+ }
            }

            /// The choice that `word` names.
            pub fn from_word(word: &str) -> Option<Self> {
                Self::ALL.iter().find(|(_, known)| *known == word).map(|(choice, _)| *choice)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.word())
            }
        }
    };
}
pub(crate) use choice;

choice!(
    /// What more than `max_failures` failures do.
    OnFailure {
        /// Stop offering turns and wait for an operator.
        Pause = "pause",
        /// Bring the members back to the baseline.
        Rollback = "rollback",
        /// Count and go on.
        Continue = "continue",
    }
);
choice!(
    /// What happens when the target of a rollout under way is demoted.
    OnDemote {
        /// End the rollout where it stands.
        Cancel = "cancel",
        /// Bring the members back to the baseline.
        Rollback = "rollback",
        /// Go on.
        Ignore = "ignore",
    }
);
choice!(
    /// What happens to a member that says "not yet" for `ready_timeout`.
    OnNotReady {
        /// Its turn failed.
        Fail = "fail",
        /// Its turn is skipped.
        Skip = "skip",
        /// It is updated all the same.
        Force = "force",
    }
);
choice!(
    /// Who lets the next wave go.
    Approve {
        /// The wave's end and soak do.
        Auto = "auto",
        /// `baton rollout approve` does.
        Manual = "manual",
    }
);
choice!(
    /// How a new target reaches the group.
    Strategy {
        /// One member after the other, within the budget.
        Rolling = "rolling",
        /// The same rollout, with every turn offered together.
        AtOnce = "at-once",
        /// The channel starts nothing; `rollout start` does, as rolling.
        None = "none",
    }
);

/// One phase's policy; the units are those of each field's type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Members not healthy for any reason plus those in turn. Default 1.
    pub max_unavailable: Limit,
    /// From the stop of the old release to first healthy. Default 60 s.
    pub start_timeout: Duration,
    /// How long a member must stay healthy after first healthy. Default 30 s.
    pub monitor: Duration,
    /// Until every member has fetched and verified the target. Default 10 min.
    pub prepare_timeout: Duration,
    /// How long a member may say "not yet". Default 5 min.
    pub ready_timeout: Duration,
    /// The whole turn, reboots included. Default 15 min.
    pub turn_timeout: Duration,
    /// Pause between turns. Default 0.
    pub delay: Duration,
    /// More than this triggers `on_failure`. Default 0.
    pub max_failures: Limit,
    /// Default pause.
    pub on_failure: OnFailure,
    /// Default cancel.
    pub on_demote: OnDemote,
    /// Default fail.
    pub on_not_ready: OnNotReady,
    /// No member passed for this long: pause, with the blocker named. Default 10 min.
    pub progress_timeout: Duration,
    /// Each entry ends a wave. Default none.
    pub waves: Vec<Limit>,
    /// How long a finished wave must stay healthy before the next. Default 0.
    pub wave_soak: Duration,
    /// Default auto.
    pub approve: Approve,
    /// Finish one value of this label before the next. Default none.
    pub zone_label: Option<String>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            max_unavailable: Limit::Count(1),
            start_timeout: Duration::from_secs(60),
            monitor: Duration::from_secs(30),
            prepare_timeout: Duration::from_secs(600),
            ready_timeout: Duration::from_secs(300),
            turn_timeout: Duration::from_secs(900),
            delay: Duration::ZERO,
            max_failures: Limit::Count(0),
            on_failure: OnFailure::Pause,
            on_demote: OnDemote::Cancel,
            on_not_ready: OnNotReady::Fail,
            progress_timeout: Duration::from_secs(600),
            waves: Vec::new(),
            wave_soak: Duration::ZERO,
            approve: Approve::Auto,
            zone_label: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_numbers_and_shares() {
        let check = |text: &str, want: Option<Limit>| {
            assert_eq!(text.parse::<Limit>().ok(), want, "{text:?}");
        };
        check("0", Some(Limit::Count(0)));
        check("25%", Some(Limit::Percent(25)));
        check("100%", Some(Limit::Percent(100)));
        for bad in ["101%", "-1", "+1", "", "%", "1.5", "x", "99999999999", "300%"] {
            check(bad, None);
        }
    }

    #[test]
    fn budget_rounds_down_and_is_at_least_one() {
        for (limit, total, want) in
            [("1", 5, 1), ("0", 5, 1), ("40%", 5, 2), ("25%", 5, 1), ("10%", 5, 1), ("34%", 3, 1)]
        {
            let limit: Limit = limit.parse().expect("a limit");
            assert_eq!(limit.budget(total), want, "{limit} of {total}");
        }
    }

    #[test]
    fn thresholds_compare_strictly_in_integers() {
        for (limit, failures, total, want) in [
            ("0", 1, 5, true),
            ("25%", 1, 5, false),
            ("25%", 2, 5, true),
            ("40%", 1, 4, false),
            ("40%", 2, 4, true),
            ("20%", 1, 5, false),
            ("100%", 5, 5, false),
        ] {
            let limit: Limit = limit.parse().expect("a limit");
            assert_eq!(limit.exceeded_by(failures, total), want, "{failures}/{total} over {limit}");
        }
    }

    #[test]
    fn waves_round_up() {
        for (limit, total, want) in [("1", 5, 1), ("60%", 5, 3), ("25%", 5, 2), ("9", 5, 5)] {
            let limit: Limit = limit.parse().expect("a limit");
            assert_eq!(limit.wave_end(total), want, "{limit} of {total}");
        }
    }
}
