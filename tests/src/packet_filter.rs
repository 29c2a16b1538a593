//! The packet filter of one host: which peers are cut off from it, and how much is lost.
//!
//! Invariant: the rules in the namespace are always rendered from this value as a whole, in one
//! transaction, so there is no moment with half of them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::Ipv4Addr;

use crate::shell;

/// What a host's namespace drops.
#[derive(Default)]
pub struct PacketFilter {
    from: BTreeSet<Ipv4Addr>,
    to: BTreeSet<Ipv4Addr>,
    loss_percent: u8,
}

impl PacketFilter {
    /// Nothing that `peer` sends arrives any more.
    pub fn drop_from(&mut self, peer: Ipv4Addr) {
        self.from.insert(peer);
    }

    /// Nothing that is sent to `peer` leaves any more.
    pub fn drop_to(&mut self, peer: Ipv4Addr) {
        self.to.insert(peer);
    }

    /// Traffic with `peer` flows again.
    pub fn allow(&mut self, peer: Ipv4Addr) {
        self.from.remove(&peer);
        self.to.remove(&peer);
    }

    /// This share of what arrives is lost, at random.
    pub fn lose(&mut self, percent: u8) {
        assert!(percent <= 100, "{percent} % cannot be lost");
        self.loss_percent = percent;
    }

    /// Puts it in force in the namespace `name`.
    pub fn apply(&self, name: &str) {
        shell::feed(&["ip", "netns", "exec", name, "nft", "-f", "-"], &self.rules());
    }

    fn rules(&self) -> String {
        let mut rules = String::from("table inet baton_test {}\ndelete table inet baton_test\n");
        rules.push_str(
            "table inet baton_test {\nchain arriving {\ntype filter hook input priority 0;\n",
        );
        for peer in &self.from {
            writeln!(rules, "ip saddr {peer} drop").expect("writing to a string");
        }
        if self.loss_percent > 0 {
            writeln!(rules, "iif != lo numgen random mod 100 < {} drop", self.loss_percent)
                .expect("writing to a string");
        }
        rules.push_str("}\nchain leaving {\ntype filter hook output priority 0;\n");
        for peer in &self.to {
            // A refusal would tell the sender at once; a cut cable says nothing.
            writeln!(rules, "ip daddr {peer} drop").expect("writing to a string");
        }
        rules.push_str("}\n}\n");
        rules
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_name_what_is_dropped_and_nothing_else() {
        let (a, b) = (Ipv4Addr::new(10, 77, 0, 1), Ipv4Addr::new(10, 77, 0, 2));
        let mut filter = PacketFilter::default();
        assert!(!filter.rules().contains("drop"));
        filter.drop_from(a);
        filter.drop_to(b);
        filter.lose(30);
        let rules = filter.rules();
        for line in ["ip saddr 10.77.0.1 drop", "ip daddr 10.77.0.2 drop", "mod 100 < 30 drop"] {
            assert!(rules.contains(line), "{line} not in {rules}");
        }
        filter.allow(a);
        filter.allow(b);
        filter.lose(0);
        assert!(!filter.rules().contains("drop"));
    }
}
