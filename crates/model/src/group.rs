//! Election, the register and two turns of one group of three nodes.
//!
//! Invariant: an action does only what one node can do at one moment with what it holds itself and
//! what others sent; what the properties need to know beside that is in [`Ghost`], which no action
//! asks.
//!
//! What was sent stays, and may be taken at any time, any number of times, or never: that is loss,
//! repetition and reordering without a bound. A write and what it releases are one step, because a
//! crash between the two is a crash after which the message was lost; only a leader's own write is
//! a step of its own, since its record is sent before it is on its disk. Nodes crash as often as
//! they like.

use stateright::{Model, Property};

use crate::state::{
    Action, Append, Ghost, NODES, Node, Record, Role, Stage, State, TURNS, Turn, bit, follows,
    is_majority, turn_of,
};

/// The bounds, and the rule that is broken on purpose.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// The highest term.
    pub terms: u8,
    /// The highest version of a record.
    pub versions: u8,
    /// Claims of one member.
    pub claims: u8,
    /// What is done wrong, if anything.
    pub broken: Option<Break>,
}

/// A rule that is left out, to show that a property notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// A vote is only in memory.
    VoteNotPersisted,
    /// A leader commits the record that it found as it is, in its old term.
    CommitForeignTerm,
    /// A leader counts itself before its record is on its disk.
    CountsItselfEarly,
    /// A voter votes for a candidate with an older record.
    VotesForOlder,
    /// *Go* is sent when the claim comes in, before *taken* is committed.
    GoWithoutCommit,
    /// A member acts on a *go* however old its claim is, and keeps its claim over a restart.
    NoClaimWindow,
    /// An outcome is taken into account as often as it comes.
    CountsTwice,
    /// The next member is offered its turn while another one is open.
    NoBudget,
}

impl Model for Group {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        // The end of the formation: every voter has accepted, which is a vote for the founder in
        // the first term, and the first record is on the founder's disk. It offers the first turn.
        let first =
            Record { term: 1, version: 1, turns: [Turn::Offered, Turn::Waiting], counted: 0 };
        let node = |disk, role| Node {
            term: 1,
            vote: Some(0),
            disk,
            newest: disk,
            role,
            stage: Stage::Before,
            claim: None,
            claims: 0,
            over: false,
        };
        let voter = node(Record::NONE, Role::Follower);
        let founder = node(first, Role::Leader { acks: 0, saved: true, idle: false });
        let mut led = [0; 5];
        led[1] = bit(0);
        let mut state = State {
            nodes: [founder, voter, voter],
            appends: vec![Append { term: 1, from: 0, record: first }],
            offers: 0,
            claims: [0; TURNS],
            gos: [0; TURNS],
            ghost: Ghost {
                truth: Record::NONE,
                lost: false,
                led,
                taken: [0; TURNS],
                late: false,
                early: false,
            },
        };
        state.forget();
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for node in 0..NODES as u8 {
            actions.extend([
                Action::Stand(node),
                Action::Lead(node),
                Action::Saved(node),
                Action::Commit(node),
                Action::Crash(node),
            ]);
            let others = (0..NODES as u8).filter(|other| *other != node);
            actions.extend(others.map(|candidate| Action::Vote(node, candidate)));
            let appends = state.appends.iter();
            let taken = appends.filter(|append| append.concerns(node, &state.nodes));
            actions.extend(taken.map(|append| Action::Take(node, *append)));
        }
        for turn in 0..TURNS as u8 {
            let member = turn + 1;
            actions.extend([
                Action::ClaimTurn(member),
                Action::WindowEnds(member),
                Action::Finish(member),
            ]);
            let sent = |bits: u8| (0..8).filter(move |claim| bits & bit(*claim) != 0);
            let gos = sent(state.gos[usize::from(turn)]);
            actions.extend(gos.map(|claim| Action::Go(member, claim)));
            for node in 0..NODES as u8 {
                actions.extend([Action::Outcome(node, turn), Action::Expire(node, turn)]);
                let claims = sent(state.claims[usize::from(turn)]);
                actions.extend(claims.map(|claim| Action::Claimed(node, turn, claim)));
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        let did = match action {
            Action::Stand(node) => self.stand(&mut state, node),
            Action::Vote(node, candidate) => self.vote(&mut state, node, candidate),
            Action::Lead(node) => self.lead(&mut state, node),
            Action::Take(node, append) => self.take(&mut state, node, append),
            Action::Saved(node) => state.saved(node),
            Action::Commit(node) => self.commit(&mut state, node),
            Action::ClaimTurn(node) => self.claim(&mut state, node),
            Action::WindowEnds(node) => self.window_ends(&mut state, node),
            Action::Claimed(node, turn, claim) => self.claimed(&mut state, node, turn, claim),
            Action::Go(node, claim) => state.go(node, claim),
            Action::Finish(node) => state.finish(node),
            Action::Outcome(node, turn) => self.outcome(&mut state, node, turn),
            Action::Expire(node, turn) => self.expire(&mut state, node, turn),
            Action::Crash(node) => self.crash(&mut state, node),
        };
        if !did {
            return None;
        }
        state.forget();
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one leader a term", |_, state: &State| {
                state.ghost.led.iter().all(|led| led.count_ones() <= 1)
            }),
            Property::always("a committed record is never lost", |_, state: &State| {
                let truth = state.ghost.truth.mark();
                let holders = state.nodes.iter().filter(|node| node.disk.mark() >= truth);
                !state.ghost.lost && holders.count() * 2 > NODES && !state.other_could_win()
            }),
            Property::always("never two turns disrupting at once", |_, state: &State| {
                state.nodes.iter().filter(|node| node.stage == Stage::Begun).count() <= 1
            }),
            Property::always("a go is acted on in its window of its boot", |_, state: &State| {
                !state.ghost.late
            }),
            Property::always("a go is acted on only when committed", |_, state: &State| {
                !state.ghost.early
            }),
            Property::always("an outcome is counted once", |_, state: &State| {
                let ended = |record: &Record| {
                    record.turns.iter().filter(|turn| **turn == Turn::Ended).count()
                };
                let exact = |record: &Record| usize::from(record.counted) == ended(record);
                exact(&state.ghost.truth) && state.nodes.iter().all(|node| exact(&node.newest))
            }),
            Property::sometimes("a turn completes", |_, state: &State| {
                state.ghost.truth.turns[0] == Turn::Ended
                    && state.nodes[1].stage == Stage::Ended
                    && state.ghost.truth.counted == 1
            }),
            Property::sometimes("the second turn is taken", |_, state: &State| {
                matches!(state.ghost.truth.turns[1], Turn::Taken(_))
            }),
            Property::sometimes("a leader changes in a turn", |_, state: &State| {
                let truth = &state.ghost.truth;
                let is_new = |node: &Node| {
                    matches!(node.role, Role::Leader { .. }) && node.term > truth.term
                };
                state.nodes.iter().any(is_new) && truth.turns.iter().any(|turn| turn.is_open())
            }),
            // A follower of a term in which it led itself has crashed since.
            Property::sometimes("a node crashes in its turn", |_, state: &State| {
                (0..).zip(&state.nodes).any(|(me, node)| {
                    let own = |append: &Append| append.from == me && append.term == node.term;
                    node.stage == Stage::Begun
                        && node.role == Role::Follower
                        && state.appends.iter().any(own)
                })
            }),
        ]
    }
}

impl Group {
    fn has(&self, broken: Break) -> bool {
        self.broken == Some(broken)
    }

    /// Ledger, electing: "it enters the next term, writes its vote for itself, and asks for votes";
    /// only a voter that holds a record does.
    fn stand(&self, state: &mut State, me: u8) -> bool {
        let node = &mut state.nodes[usize::from(me)];
        if node.term >= self.terms || node.disk == Record::NONE {
            return false;
        }
        node.enter(node.term + 1);
        node.vote = Some(me);
        node.role = Role::Candidate { votes: bit(me) };
        true
    }

    /// Ledger, electing: "a vote goes to at most one candidate per term, only to one whose record
    /// is at least as new"; it is on disk before it is said. A request that is refused, or whose
    /// sender is no candidate any more, would at most take the node to a later term, and there it
    /// can do less than where it is.
    fn vote(&self, state: &mut State, me: u8, candidate: u8) -> bool {
        let asks = state.nodes[usize::from(candidate)];
        let node = &mut state.nodes[usize::from(me)];
        let Role::Candidate { votes } = asks.role else { return false };
        let is_free = asks.term > node.term || node.vote.is_none_or(|vote| vote == candidate);
        let is_new = asks.disk.mark() >= node.disk.mark() || self.has(Break::VotesForOlder);
        if asks.term < node.term || !is_free || !is_new {
            return false;
        }
        node.enter(asks.term);
        node.vote = Some(candidate);
        state.nodes[usize::from(candidate)].role = Role::Candidate { votes: votes | bit(me) };
        true
    }

    /// Ledger, electing and committing: with a majority it leads, and writes the record that it
    /// found anew, unchanged, in its own term.
    fn lead(&self, state: &mut State, me: u8) -> bool {
        let node = &mut state.nodes[usize::from(me)];
        let Role::Candidate { votes } = node.role else { return false };
        if !is_majority(votes) {
            return false;
        }
        let mut found = node.disk;
        if !self.has(Break::CommitForeignTerm) {
            if found.version >= self.versions {
                return false;
            }
            found.term = node.term;
            found.version += 1;
        }
        state.ghost.led[usize::from(node.term)] |= bit(me);
        state.write(me, found);
        true
    }

    /// Ledger, committing: "a record is taken from the leader of the own term and only if it is
    /// newer than the one held"; it is on disk before it is acknowledged.
    fn take(&self, state: &mut State, me: u8, append: Append) -> bool {
        if !append.concerns(me, &state.nodes) {
            return false;
        }
        let node = &mut state.nodes[usize::from(me)];
        if append.term == node.term && matches!(node.role, Role::Leader { .. }) {
            return false;
        }
        node.enter(append.term);
        node.role = Role::Follower;
        let is_of_term = append.record.term == append.term || self.has(Break::CommitForeignTerm);
        if append.record.mark() > node.disk.mark() && is_of_term {
            node.disk = append.record;
            node.newest = append.record;
        }
        state.acknowledge(me, append);
        true
    }

    /// Ledger, committing: "committed when a majority holds it and it was written in the leader's
    /// own term". Then members are told what it says.
    fn commit(&self, state: &mut State, me: u8) -> bool {
        let node = &mut state.nodes[usize::from(me)];
        let Role::Leader { acks, saved, idle: false } = node.role else { return false };
        let own = if saved || self.has(Break::CountsItselfEarly) { bit(me) } else { 0 };
        let record = node.newest;
        let is_own_term = record.term == node.term || self.has(Break::CommitForeignTerm);
        if !is_majority(acks | own) || !is_own_term {
            return false;
        }
        node.role = Role::Leader { acks: 0, saved, idle: true };
        let truth = state.ghost.truth;
        // A leader of the past may count late acknowledgements of a record that others went on from.
        let is_later = record.mark() > truth.mark() && follows(&truth, &record);
        let is_earlier = record.mark() < truth.mark() && follows(&record, &truth);
        state.ghost.lost |= record != truth && !is_later && !is_earlier;
        if !is_earlier {
            state.ghost.truth = record;
        }
        for (turn, stands) in record.turns.iter().enumerate() {
            match stands {
                Turn::Offered => state.offers |= 1 << turn,
                Turn::Taken(claim) => {
                    state.ghost.taken[turn] |= bit(*claim);
                    state.gos[turn] |= bit(*claim);
                }
                Turn::Waiting | Turn::Ended => {}
            }
        }
        true
    }

    /// Rollout, claim (member): "claims with a random id kept in memory only".
    fn claim(&self, state: &mut State, me: u8) -> bool {
        let Some(turn) = turn_of(me) else { return false };
        let node = &mut state.nodes[usize::from(me)];
        let is_offered = state.offers & bit(turn) != 0;
        let waits = node.claim.is_some() && !node.over;
        if !is_offered || node.stage != Stage::Before || waits || node.claims >= self.claims {
            return false;
        }
        node.claims += 1;
        node.claim = Some(node.claims);
        node.over = false;
        state.claims[usize::from(turn)] |= bit(node.claims);
        true
    }

    /// Rollout, claim (member): "without an answer in the window it claims anew".
    fn window_ends(&self, state: &mut State, me: u8) -> bool {
        let node = &mut state.nodes[usize::from(me)];
        if node.claim.is_none() || node.over {
            return false;
        }
        if self.has(Break::NoClaimWindow) {
            node.over = true;
        } else {
            node.claim = None;
        }
        true
    }

    /// Rollout, claim (leader): "commits *taken* with the claim's id"; a member that claims anew
    /// has not begun, and its new claim replaces the old one.
    fn claimed(&self, state: &mut State, me: u8, turn: u8, claim: u8) -> bool {
        let Some(mut record) = self.next_record(state, me) else { return false };
        let stands = &mut record.turns[usize::from(turn)];
        if !stands.is_open() || *stands == Turn::Taken(claim) {
            return false;
        }
        *stands = Turn::Taken(claim);
        if self.has(Break::GoWithoutCommit) {
            state.gos[usize::from(turn)] |= bit(claim);
        }
        state.write(me, record);
        true
    }

    /// Rollout, outcome (leader): "commits the outcome and the next offer in one record"; a late
    /// or repeated one changes nothing.
    fn outcome(&self, state: &mut State, me: u8, turn: u8) -> bool {
        if state.nodes[usize::from(turn) + 1].stage != Stage::Ended {
            return false;
        }
        let Some(record) = self.next_record(state, me) else { return false };
        let is_open = record.turns[usize::from(turn)].is_open();
        if !is_open && !self.has(Break::CountsTwice) {
            return false;
        }
        let record = ended(record, turn);
        state.write(me, record);
        true
    }

    /// Rollout: "only the leader judges `turn_timeout`". The model supposes that it is longer than
    /// a begun turn takes, and that a claim window has passed since the last claim.
    fn expire(&self, state: &mut State, me: u8, turn: u8) -> bool {
        let Some(record) = self.next_record(state, me) else { return false };
        let member = &state.nodes[usize::from(turn) + 1];
        let is_waited_for = member.claim.is_some() && !member.over;
        let is_taken = matches!(record.turns[usize::from(turn)], Turn::Taken(_));
        if !is_taken || is_waited_for || member.stage == Stage::Begun {
            return false;
        }
        let record = ended(record, turn);
        state.write(me, record);
        true
    }

    /// The next record of a leader that has nothing in flight, unchanged so far. A broken budget
    /// offers whatever waits.
    fn next_record(&self, state: &State, me: u8) -> Option<Record> {
        let node = &state.nodes[usize::from(me)];
        let Role::Leader { idle: true, .. } = node.role else { return None };
        if node.newest.version >= self.versions {
            return None;
        }
        let mut record = node.newest;
        record.term = node.term;
        record.version += 1;
        if self.has(Break::NoBudget) {
            record.turns[1] = record.turns[1].max(Turn::Offered);
        }
        Some(record)
    }

    /// What is in memory is gone: role, claim, and a record whose write was under way.
    fn crash(&self, state: &mut State, me: u8) -> bool {
        let node = &mut state.nodes[usize::from(me)];
        node.newest = node.disk;
        node.role = Role::Follower;
        if self.has(Break::NoClaimWindow) {
            node.over = node.claim.is_some();
        } else {
            node.claim = None;
        }
        if self.has(Break::VoteNotPersisted) {
            node.vote = None;
        }
        true
    }
}

/// The record with that outcome, and with the next turn offered.
fn ended(mut record: Record, turn: u8) -> Record {
    record.turns[usize::from(turn)] = Turn::Ended;
    record.counted += 1;
    if !record.turns.iter().any(|turn| turn.is_open())
        && let Some(next) = record.turns.iter_mut().find(|turn| **turn == Turn::Waiting)
    {
        *next = Turn::Offered;
    }
    record
}
