//! `baton sim`: the simulator, for people and for scripts.
//!
//! Invariant: what is printed of one seed or one scenario depends on it alone, so that two runs
//! can be compared; times of this machine are told only of campaigns.

mod campaign;
mod report;
mod scenario;

use crate::args::SimArgs;
use crate::exit::Failure;
use crate::output::Output;

/// Plays what was asked for.
pub(crate) fn run(args: &SimArgs, output: &mut Output) -> Result<u8, Failure> {
    match (&args.scenario, &args.seeds, args.seed) {
        (Some(file), ..) => scenario::run(file, args, output),
        (None, Some(seeds), _) => campaign::run(seeds.clone(), args, output),
        // The command line insists on one of the three.
        (None, None, seed) => campaign::one(seed.unwrap_or_default(), args, output),
    }
}
