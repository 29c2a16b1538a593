//! What members speak, and what newer builds say of themselves, on their way through others.

use std::time::Duration;

use baton_types::Profile;
use baton_wire::{RingMessage, Versions};

use super::net::Net;
use crate::MemberState;

#[test]
fn what_a_newer_build_says_of_itself_is_passed_on_also_when_it_dies() {
    let mut net = Net::joined(6, Profile::Lan, 70);
    let newer = Versions::new(1, 2).expect("a range");
    let (addr, id, boot) = (net.nodes[5].addr, net.nodes[5].id, net.ring(5).me.boot);
    let mut record = net.with(5, |ring, now| ring.my_record(now)).expect("its own record");
    record.incarnation.0 += 1;
    (record.versions, record.more) = (newer, vec![1, 2, 3]);
    net.kill(5);
    let rumour = RingMessage::Member(record);
    net.with(0, |ring, now| ring.receive(now, addr, id, boot, rumour));
    let known = |net: &Net, state| {
        net.running().into_iter().all(|at| {
            let member = net.ring(at).member(id).expect("known");
            (member.state, member.versions, member.more.as_slice())
                == (state, newer, [1, 2, 3].as_slice())
        })
    };
    net.run_until(20, "all have it for dead", |net| known(net, MemberState::Dead));
    // And over a restart, by the file and by what others say.
    net.run(Duration::from_secs(10));
    net.kill(4);
    net.start(4);
    net.run_until(20, "it is known again", |net| known(net, MemberState::Dead));
    let saved = &net.nodes[0].saved.members;
    let saved = saved.iter().find(|record| record.node == id).expect("saved");
    assert_eq!((saved.versions, saved.more.as_slice()), (newer, [1, 2, 3].as_slice()));
}
