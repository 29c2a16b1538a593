//! The environment of a program: what Baton gives, what the service may set.

use std::collections::BTreeMap;

use baton_supervise::environment::{Surroundings, environment};

use crate::release::launch;

#[test]
fn batons_own_names_cannot_be_set_by_the_service() {
    let mut launch = launch("1", &[]);
    launch.env = [
        ("PORT", "6379"),
        ("PATH", "/opt/bin"),
        ("BATON_NODE", "forged"),
        ("NOTIFY_SOCKET", "/run/systemd/notify"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    let mut place = Surroundings {
        node: "n1".parse().expect("a node name"),
        group: "demo.default".parse().expect("a group"),
        release_dir: "/data/releases/x".to_owned(),
        state_dir: "/data/state/demo.default".to_owned(),
        census: "/data/census/demo.default.json".to_owned(),
        config_dir: "/data/config/demo.default/x".to_owned(),
        notify_socket: None,
    };
    let mut want: BTreeMap<String, String> = [
        ("BATON_CENSUS", "/data/census/demo.default.json"),
        ("BATON_CONFIG_DIR", "/data/config/demo.default/x"),
        ("BATON_GROUP", "demo.default"),
        ("BATON_NODE", "n1"),
        ("BATON_RELEASE", "demo/1"),
        ("BATON_RELEASE_DIR", "/data/releases/x"),
        ("BATON_ROLLOUT", ""),
        ("BATON_STATE_DIR", "/data/state/demo.default"),
        ("HOME", "/data/state/demo.default"),
        ("PATH", "/opt/bin"),
        ("PORT", "6379"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    assert_eq!(environment(&launch, &place), want);

    // A configuration revision goes over the service's own, and is no way around the rule either.
    let given = [("PORT", "7000"), ("BATON_NODE", "forged"), ("EXTRA", "1")];
    let mut revision = baton_types::Revision::default();
    revision.env.extend(given.map(|(name, value)| (name.to_owned(), value.to_owned())));
    launch.revision = Some(std::sync::Arc::new(revision));
    want.insert("PORT".to_owned(), "7000".to_owned());
    want.insert("EXTRA".to_owned(), "1".to_owned());
    assert_eq!(environment(&launch, &place), want);

    place.notify_socket = Some("/run/baton/notify".to_owned());
    want.insert("NOTIFY_SOCKET".to_owned(), "/run/baton/notify".to_owned());
    assert_eq!(environment(&launch, &place), want);
}
