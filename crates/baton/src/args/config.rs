//! The words after `baton config`.

use std::path::PathBuf;

use baton_depot::DepotUrl;
use baton_types::GroupName;
use clap::Subcommand;

use super::Json;
use super::depot::Signer;
use super::rollout::{Typed, Wait};

/// `baton config …`
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum ConfigCommand {
    /// Sign a configuration revision, put it into the group's depot (or hand it to this node's daemon)
    /// and roll it out
    Apply {
        #[command(flatten)]
        typed: Typed,
        /// The revision: [env] and [files."NAME"]
        file: PathBuf,
        /// Where the depot's folder is, if not where the group reads it: file:///…
        #[arg(long, value_name = "URL", env = "BATON_DEPOT")]
        depot: Option<DepotUrl>,
        /// Give it to the daemon of this node instead, from which the members get it: no depot is
        /// written, whatever --depot or BATON_DEPOT says. Done by itself where the group's depot is
        /// https://
        #[arg(long)]
        hand_in: bool,
        #[command(flatten)]
        signer: Signer,
        #[command(flatten)]
        wait: Wait,
    },
    /// Show the revision in force, with its content
    Show {
        /// SERVICE.GROUP, for example redis.default
        group: GroupName,
        /// Another one that the group has had
        #[arg(long, value_name = "NUMBER")]
        revision: Option<u32>,
        #[command(flatten)]
        json: Json,
    },
}

const EXAMPLES: &str = "\
Examples:
  baton config apply redis.default redis.toml --key /etc/baton/depot.key --wait
  baton config apply redis.default redis.toml --key depot.key --hand-in    no depot is written
  baton config show redis.default
  baton rollout rollback redis.default --wait        the revision and its release, both

A revision file:
  [env]
  MAXMEMORY = \"2gb\"
  [files.\"redis.conf\"]
  content = '''
  port ${PORT}
  maxmemory ${MAXMEMORY}
  '''
  [files.\"users.acl\"]
  source = \"users.acl\"          beside the revision's file
  mode = \"0600\"

The program finds its files in the folder that BATON_CONFIG_DIR names.";
