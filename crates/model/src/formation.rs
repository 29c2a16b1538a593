//! How a group gets its lineage: proposals, acceptances, refusals, the first record.
//!
//! Invariant: as in [`crate::group`], an action does only what one node can do with what is on its
//! disk and what others sent. What was sent stays, and is taken at any time, any number of times,
//! or never. A write and what it releases are one step. What the rules keep is all on disk, so a
//! crash changes nothing but where a rule is broken.
//!
//! A node may be taken for dead at any time, rightly or wrongly, and so may see any members.

use stateright::{Model, Property, Representative};

/// The bounds, and the rule that is broken on purpose.
#[derive(Clone, Copy, Debug)]
pub struct Formation {
    /// Nodes, up to four.
    pub nodes: u8,
    /// Members that a node must see to propose.
    pub expect: u8,
    /// Lineages that are proposed.
    pub lineages: u8,
    /// Nodes that lose their file, each once.
    pub lost_files: u8,
    /// What is done wrong, if anything.
    pub broken: Option<Break>,
}

/// A rule that is left out, to show that a property notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// After a restart a proposal is repeated with other voters.
    ProposalChanges,
    /// An acceptance is only in memory.
    AcceptanceNotDurable,
    /// The first record is written when a majority has accepted.
    FoundsWithMajority,
    /// The first record is sent before it is on the proposer's disk.
    RecordNotDurable,
    /// The proposer withdraws although it has written the first record.
    WithdrawsLate,
    /// Who accepted one lineage accepts another one as well.
    AcceptsAnother,
    /// A refusal is only in memory.
    RefusalNotDurable,
    /// Who refused a lineage is free for another one at once.
    LetsGoAlone,
    /// Who refused a lineage takes a record of it.
    HoldsRefused,
    /// A node that is named with a file that it lost accepts with its new one.
    AcceptsForLostFile,
    /// A voter whose file is lost counts as one that refused.
    LostFileRefuses,
}

/// One node's file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Node {
    /// Which of its files it is.
    pub file: u8,
    /// The lineage that it accepted or holds a record of.
    pub lineage: Option<u8>,
    /// The voters of the accepted proposal, one bit for each seat.
    pub voters: u8,
    /// Whether it holds the first record of the lineage.
    pub holds: bool,
    /// Lineages that it refused for good, one bit for each.
    pub refused: u8,
}

/// One lineage: what was sent about it. A *seat* is a node with one of its files; sets of seats
/// have the first files in the low half.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lineage {
    /// The proposer's seat.
    pub proposer: u8,
    /// The proposed voters, one bit for each seat.
    pub voters: u8,
    /// Acceptances, one bit for each seat.
    pub accepts: u8,
    /// Refusals for good, one bit for each seat.
    pub refusals: u8,
    /// The voters that the first record lists, one bit for each seat; none before it is sent.
    pub listed: u8,
    /// Acknowledgements of the first record, one bit for each seat.
    pub held: u8,
}

/// The whole.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The nodes.
    pub nodes: [Node; NODES],
    /// The lineages in the order in which they were proposed.
    pub lineages: Vec<Lineage>,
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The node sees members, itself the lowest, and proposes a lineage with these seats of them.
    Propose(u8, u8),
    /// The node takes the proposal of that lineage and accepts.
    Accept(u8, u8),
    /// It takes the proposer for dead, and refuses its lineage for good.
    Refuse(u8),
    /// A proposer gives its lineage up.
    Withdraw(u8),
    /// The lineage of that node can no longer come to be: it is free for another one.
    LetGo(u8),
    /// The proposer has every acceptance and writes the first record.
    Found(u8),
    /// The node takes the first record of that lineage.
    Hold(u8, u8),
    /// The daemon dies and starts again from its disk.
    Crash(u8),
    /// The node's disk is replaced: it starts with a new file.
    LoseFile(u8),
}

impl Model for Formation {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State { nodes: [Node::default(); NODES], lineages: Vec::new() }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for node in 0..self.nodes {
            let sets = (0..=u8::MAX).filter(|seats| self.may_be_seen(state, node, *seats));
            actions.extend(sets.map(|seats| Action::Propose(node, seats)));
            actions.extend([
                Action::Refuse(node),
                Action::Withdraw(node),
                Action::LetGo(node),
                Action::Found(node),
                Action::Crash(node),
                Action::LoseFile(node),
            ]);
            for lineage in 0..state.lineages.len() as u8 {
                actions.extend([Action::Accept(node, lineage), Action::Hold(node, lineage)]);
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        let did = match action {
            Action::Propose(node, voters) => self.propose(&mut state, node, voters),
            Action::Accept(node, lineage) => self.accept(&mut state, node, lineage),
            Action::Refuse(node) => state.refuse(node),
            Action::Withdraw(node) => self.withdraw(&mut state, node),
            Action::LetGo(node) => self.let_go(&mut state, node),
            Action::Found(node) => self.found(&mut state, node),
            Action::Hold(node, lineage) => self.hold(&mut state, node, lineage),
            Action::Crash(node) => self.crash(&mut state, node),
            Action::LoseFile(node) => self.lose_file(&mut state, node),
        };
        state.forget();
        (did && state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no voter is in two lineages that were founded", |_, s: &State| {
                let founded = || s.lineages.iter().filter(|lineage| lineage.is_founded());
                founded().all(|one| {
                    founded().all(|other| one == other || one.listed & other.listed == 0)
                })
            }),
            Property::always(
                "a file that refused a lineage holds nothing of it",
                |_, s: &State| {
                    let holds_refused = |node: &Node| {
                        node.holds && node.lineage.is_some_and(|own| node.refused & bit(own) != 0)
                    };
                    !s.nodes.iter().any(holds_refused)
                },
            ),
            // With this the model of the group goes on.
            Property::always("a voter belongs to what lists it, or is silent", |_, s: &State| {
                (0..).zip(&s.nodes).all(|(me, node)| {
                    let listed = (0..)
                        .zip(&s.lineages)
                        .filter(|(_, lineage)| lineage.listed & seat_bit(me, node) != 0);
                    let mut lineages = listed.map(|(number, _)| number);
                    lineages.all(|number| {
                        node.lineage == Some(number) || node.refused & bit(number) != 0
                    })
                })
            }),
            Property::sometimes("a lineage is founded", |_, s: &State| {
                s.lineages.iter().any(Lineage::is_founded)
            }),
            Property::sometimes("one is founded after another one was given up", |_, s: &State| {
                s.lineages.iter().any(|lineage| {
                    let gave_up = |other: &Lineage| other.refusals & lineage.listed != 0;
                    lineage.is_founded() && s.lineages.iter().any(gave_up)
                })
            }),
            Property::sometimes("a first record is dropped", |_, s: &State| {
                s.lineages
                    .iter()
                    .any(|lineage| lineage.held & lineage.refusals & lineage.proposer_bit() != 0)
            }),
        ]
    }
}

impl Formation {
    fn has(&self, broken: Break) -> bool {
        self.broken == Some(broken)
    }

    /// Whether `me` may know these members by these files: one of each, of which it said at some
    /// time that it is its own.
    fn may_be_seen(&self, state: &State, me: u8, seats: u8) -> bool {
        let nodes = nodes_of(seats);
        let own = seat_bit(me, &state.nodes[usize::from(me)]);
        let files = (0..self.nodes).zip(&state.nodes);
        let had = files.fold(0, |all, (node, file)| all | bit(node) | seat_bit(node, file));
        seats & !had == 0
            && seats & own != 0
            && nodes.count_ones() == seats.count_ones()
            && nodes.trailing_zeros() == u32::from(me)
            && nodes.count_ones() >= u32::from(self.expect)
    }

    /// Ledger, forming: "it has seen as many alive members as the group starts with, and its own
    /// id is the lowest"; the proposal is on disk before it is sent.
    fn propose(&self, state: &mut State, me: u8, voters: u8) -> bool {
        let node = &mut state.nodes[usize::from(me)];
        let seat = seat(me, node);
        if let Some(own) = node.lineage {
            let lineage = &mut state.lineages[usize::from(own)];
            let repeats = lineage.proposer == seat && !node.holds;
            if repeats && self.has(Break::ProposalChanges) {
                lineage.voters = voters;
                node.voters = voters;
                return true;
            }
            return false;
        }
        let number = state.lineages.len() as u8;
        if number >= self.lineages {
            return false;
        }
        (node.lineage, node.voters) = (Some(number), voters);
        state.lineages.push(Lineage {
            proposer: seat,
            voters,
            accepts: bit(seat),
            refusals: 0,
            listed: 0,
            held: 0,
        });
        true
    }

    /// Ledger, forming: "who accepted one lineage refuses others"; an acceptance is on disk before
    /// it is said.
    fn accept(&self, state: &mut State, me: u8, number: u8) -> bool {
        let node = &mut state.nodes[usize::from(me)];
        let lineage = &mut state.lineages[usize::from(number)];
        // Nothing comes of a lineage that its proposer gave up: it would only hold the node up.
        if lineage.is_withdrawn() {
            return false;
        }
        let is_free = node.lineage.is_none() || (self.has(Break::AcceptsAnother) && !node.holds);
        let named = match self.has(Break::AcceptsForLostFile) {
            true => lineage.voters & (bit(me) | bit(me + NODES as u8)),
            false => lineage.voters & seat_bit(me, node),
        };
        if !is_free || named == 0 || node.refused & bit(number) != 0 {
            return false;
        }
        (node.lineage, node.voters) = (Some(number), lineage.voters);
        lineage.accepts |= named;
        true
    }

    /// Ledger, forming: "of two proposals that meet one is withdrawn by its own proposer", which
    /// has not written the first record. Here each may be, at any time.
    fn withdraw(&self, state: &mut State, me: u8) -> bool {
        let Some((node, lineage)) = state.own(me) else { return false };
        let is_written = node.holds && !self.has(Break::WithdrawsLate);
        if lineage.proposer != seat(me, node) || is_written {
            return false;
        }
        state.give_up(me)
    }

    /// Ledger, forming: "free for another only when so many of the named files refused that the
    /// rest is no majority", or when the proposer itself did without a first record.
    fn let_go(&self, state: &mut State, me: u8) -> bool {
        let lost = if self.has(Break::LostFileRefuses) { state.lost() } else { 0 };
        let Some((node, lineage)) = state.own(me) else { return false };
        let voters = if node.holds { lineage.listed } else { node.voters };
        let is_hopeless = !is_majority(voters & !(lineage.refusals | lost), voters);
        let is_withdrawn = !node.holds && lineage.refusals & lineage.proposer_bit() != 0;
        let alone = self.has(Break::LetsGoAlone) && lineage.refusals & seat_bit(me, node) != 0;
        (is_hopeless || is_withdrawn || alone) && state.give_up(me)
    }

    /// Ledger, forming: "the first record is written only when every named file has accepted, and
    /// it is on disk before it is sent".
    fn found(&self, state: &mut State, me: u8) -> bool {
        let Some((node, lineage)) = state.own(me) else { return false };
        let is_mine = lineage.proposer == seat(me, node);
        let accepted = lineage.accepts & node.voters;
        let is_enough = accepted == node.voters
            || (self.has(Break::FoundsWithMajority) && is_majority(accepted, node.voters));
        if !is_mine || node.holds || !is_enough {
            return false;
        }
        node.holds = true;
        lineage.listed = node.voters;
        lineage.held = seat_bit(me, node);
        true
    }

    /// Ledger, committing: the first record is taken by a listed voter of its lineage, and is on
    /// disk before it is acknowledged.
    fn hold(&self, state: &mut State, me: u8, number: u8) -> bool {
        let node = &mut state.nodes[usize::from(me)];
        let lineage = &mut state.lineages[usize::from(number)];
        let seat = seat_bit(me, node);
        let belongs = node.lineage.is_none_or(|own| own == number);
        let refused = node.refused & bit(number) != 0 && !self.has(Break::HoldsRefused);
        if lineage.listed & seat == 0 || !belongs || refused {
            return false;
        }
        (node.lineage, node.voters) = (Some(number), lineage.listed);
        node.holds = true;
        lineage.held |= seat;
        true
    }

    fn crash(&self, state: &mut State, me: u8) -> bool {
        let node = &mut state.nodes[usize::from(me)];
        if self.has(Break::RefusalNotDurable) {
            node.refused = 0;
            return true;
        }
        let Some((node, lineage)) = state.own(me) else { return false };
        let is_mine = lineage.proposer == seat(me, node);
        match self.broken {
            Some(Break::AcceptanceNotDurable) if !node.holds && !is_mine => node.lineage = None,
            Some(Break::RecordNotDurable) if node.holds && is_mine => node.holds = false,
            _ => return false,
        }
        true
    }

    fn lose_file(&self, state: &mut State, me: u8) -> bool {
        let lost: u8 = state.nodes.iter().map(|node| node.file).sum();
        let node = &mut state.nodes[usize::from(me)];
        if lost >= self.lost_files || node.file > 0 {
            return false;
        }
        *node = Node { file: 1, ..Node::default() };
        true
    }
}

impl State {
    /// Forgets what no step asks for any more, so that states that differ in nothing else are one.
    fn forget(&mut self) {
        for (number, lineage) in (0..).zip(&mut self.lineages) {
            if lineage.listed != 0 {
                lineage.accepts = 0;
            }
            if lineage.is_withdrawn() {
                (lineage.voters, lineage.accepts) = (0, 0);
                lineage.refusals = lineage.proposer_bit();
                self.nodes.iter_mut().for_each(|node| node.refused &= !bit(number));
            }
        }
    }

    /// The seats whose files are lost.
    fn lost(&self) -> u8 {
        let replaced = (0..).zip(&self.nodes).filter(|(_, node)| node.file > 0);
        replaced.fold(0, |all, (number, _)| all | bit(number))
    }

    /// The node, and the lineage to which it belongs.
    fn own(&mut self, me: u8) -> Option<(&mut Node, &mut Lineage)> {
        let node = &mut self.nodes[usize::from(me)];
        let lineage = &mut self.lineages[usize::from(node.lineage?)];
        Some((node, lineage))
    }

    /// Ledger, forming: "when the proposer is dead in the ring, an acceptor without the first
    /// record may refuse its lineage for good"; it is on disk before it is said.
    fn refuse(&mut self, me: u8) -> bool {
        let Some((node, lineage)) = self.own(me) else { return false };
        if node.holds || lineage.proposer == seat(me, node) {
            return false;
        }
        lineage.refusals |= seat_bit(me, node);
        node.refused |= node.lineage.map_or(0, bit);
        true
    }

    /// The node refuses its lineage for good and is free, in one write.
    fn give_up(&mut self, me: u8) -> bool {
        let Some((node, lineage)) = self.own(me) else { return false };
        lineage.refusals |= seat_bit(me, node);
        node.refused |= node.lineage.map_or(0, bit);
        (node.lineage, node.voters, node.holds) = (None, 0, false);
        true
    }
}

/// The order in which lineages were proposed means nothing.
impl Representative for State {
    fn representative(&self) -> Self {
        let mut order: Vec<usize> = (0..self.lineages.len()).collect();
        order.sort_by_key(|number| self.lineages[*number]);
        let number_of = |old: u8| order.iter().position(|number| *number == usize::from(old));
        let renumber = |mut node: Node| {
            node.lineage = node.lineage.and_then(number_of).map(|number| number as u8);
            let refused = (0..).zip(&order).filter(|(_, old)| node.refused & 1 << **old != 0);
            node.refused = refused.fold(0, |all, (number, _)| all | bit(number));
            node
        };
        Self {
            nodes: self.nodes.map(renumber),
            lineages: order.iter().map(|number| self.lineages[*number]).collect(),
        }
    }
}

impl Lineage {
    /// Whether the first record is committed: a majority of the voters that it lists held it.
    fn is_founded(&self) -> bool {
        self.listed != 0 && is_majority(self.held & self.listed, self.listed)
    }

    /// Whether its proposer gave it up before there was a first record.
    const fn is_withdrawn(&self) -> bool {
        self.listed == 0 && self.refusals & self.proposer_bit() != 0
    }

    const fn proposer_bit(&self) -> u8 {
        bit(self.proposer)
    }
}

const fn bit(number: u8) -> u8 {
    1 << number
}

const fn seat(node: u8, file: &Node) -> u8 {
    node + file.file * NODES as u8
}

const fn seat_bit(node: u8, file: &Node) -> u8 {
    bit(seat(node, file))
}

/// The nodes of these seats.
const fn nodes_of(seats: u8) -> u8 {
    (seats | seats >> NODES) & (bit(NODES as u8) - 1)
}

const fn is_majority(some: u8, voters: u8) -> bool {
    some.count_ones() * 2 > voters.count_ones()
}

/// The most nodes.
pub const NODES: usize = 4;
