//! Every scenario file of the crate, played.

use std::path::Path;

use baton_sim::Script;

#[test]
fn every_scenario_file_comes_out_as_it_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut played = 0;
    for entry in std::fs::read_dir(folder).expect("the scenarios") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("a file");
        let script = Script::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        for seed in 1..=5 {
            if let Err(violation) = script.clone().with_seed(seed).play() {
                panic!("{}: {violation}", path.display());
            }
        }
        played += 1;
    }
    assert!(played >= 9, "only {played} files");
}
