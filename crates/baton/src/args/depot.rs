//! The words after `baton depot`.

use std::path::PathBuf;

use baton_depot::DepotUrl;
use baton_types::{Name, ReleaseId};
use clap::{Args, Subcommand};

use super::Json;

/// `baton depot …`
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum DepotCommand {
    /// Make an empty depot
    Init {
        /// file:///ABSOLUTE/PATH of a new or empty folder
        url: DepotUrl,
    },
    /// Make a key pair: PATH.key signs, PATH.pub goes to every node as a trusted key
    Keygen {
        /// Without the ending; never overwritten
        #[arg(long, value_name = "PATH")]
        out: PathBuf,
    },
    /// Pack a release directory (with its release.toml), sign it and put it into the depot
    Publish {
        /// The release's directory
        dir: PathBuf,
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        signer: Signer,
        #[command(flatten)]
        json: Json,
    },
    /// Put a published release at the head of a channel; groups that follow it roll it out
    Promote {
        #[command(flatten)]
        moved: Moved,
        /// Also for groups that rejected this very release before
        #[arg(long)]
        again: bool,
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        signer: Signer,
    },
    /// Take a release out of a channel
    Demote {
        #[command(flatten)]
        moved: Moved,
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        signer: Signer,
    },
    /// List releases and the channels that hold them
    List {
        #[command(flatten)]
        place: Place,
        /// Also verify everything with this public key, as `verify` does
        #[arg(long, value_name = "FILE")]
        trust: Vec<PathBuf>,
        #[command(flatten)]
        json: Json,
    },
    /// Check every signature and every archive as a node would
    Verify {
        #[command(flatten)]
        place: Place,
        /// Public key whose signatures count; may be given several times
        #[arg(long, value_name = "FILE", required = true)]
        trust: Vec<PathBuf>,
        #[command(flatten)]
        json: Json,
    },
    /// Let this node accept another depot at a URL: the old one was replaced on purpose. To be
    /// typed on every node
    Trust {
        #[command(flatten)]
        place: Place,
    },
    /// Remove archives that no channel needs any more
    Gc {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        signer: Signer,
        #[command(flatten)]
        json: Json,
    },
}

/// Which depot.
#[derive(Clone, Debug, Args)]
pub(crate) struct Place {
    /// file:///srv/depot, or https://… where it is only read
    #[arg(long, value_name = "URL", env = "BATON_DEPOT")]
    pub(crate) depot: DepotUrl,
}

/// Who signs.
#[derive(Clone, Debug, Args)]
pub(crate) struct Signer {
    /// Secret key, as `depot keygen` makes it
    #[arg(long, value_name = "FILE", env = "BATON_DEPOT_KEY")]
    pub(crate) key: PathBuf,
    /// Public key of another operator, whose promotions are continued; may be given several times
    #[arg(long, value_name = "FILE")]
    pub(crate) trust: Vec<PathBuf>,
}

/// What is moved in or out of which channel.
#[derive(Clone, Debug, Args)]
pub(crate) struct Moved {
    /// NAME/VERSION, for example redis/7.0.15
    pub(crate) release: ReleaseId,
    /// For example stable
    #[arg(long, value_name = "CHANNEL")]
    pub(crate) channel: Name,
}

const EXAMPLES: &str = "\
Examples:
  baton depot init file:///srv/depot
  baton depot keygen --out /etc/baton/depot      makes depot.key and depot.pub
  export BATON_DEPOT=file:///srv/depot BATON_DEPOT_KEY=/etc/baton/depot.key
  baton depot publish ./redis-7.0.15             packs, signs, stores; starts nothing
  baton depot promote redis/7.0.15 --channel stable
  baton depot demote redis/7.0.15 --channel stable
  baton depot list
  baton depot verify --trust /etc/baton/depot.pub";
