//! What the model of a group consists of: nodes, their record, messages, and what an observer knows.
//!
//! Invariant: something is forgotten only when no step asks for it any more, now or later.

/// The group's record: what the ledger keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Record {
    /// With `version` its place.
    pub term: u8,
    /// Rises by one from record to record; none is the first.
    pub version: u8,
    /// The turns.
    pub turns: [Turn; TURNS],
    /// Outcomes that were counted.
    pub counted: u8,
}

impl Record {
    /// What a node holds that accepted the formation and holds no record yet.
    pub(crate) const NONE: Self =
        Self { term: 0, version: 0, turns: [Turn::Waiting; TURNS], counted: 0 };

    pub(crate) const fn mark(&self) -> (u8, u8) {
        (self.term, self.version)
    }
}

/// A turn as the record has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Turn {
    /// Not offered yet.
    Waiting,
    /// Holds its place in the budget.
    Offered,
    /// The claim with this number may act.
    Taken(u8),
    /// Its outcome is counted.
    Ended,
}

impl Turn {
    pub(crate) const fn is_open(self) -> bool {
        matches!(self, Self::Offered | Self::Taken(_))
    }
}

/// What a node is for the ledger; in memory only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Takes records and votes.
    Follower,
    /// Its vote for itself is on its disk.
    Candidate {
        /// Who voted for it, itself too, one bit for each node; the votes are there or under way.
        votes: u8,
    },
    /// Leads its term.
    Leader {
        /// Which others acknowledged the newest record, one bit for each node; the
        /// acknowledgements are there or under way.
        acks: u8,
        /// Whether the newest record is on its own disk.
        saved: bool,
        /// Whether the newest record is committed: then the next one may be made.
        idle: bool,
    },
}

/// The member's side: where its turn stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Not begun; the old program serves.
    Before,
    /// On disk: the program is stopped or not yet healthy.
    Begun,
    /// On disk: its outcome is said, again and again.
    Ended,
}

/// One node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// On disk.
    pub term: u8,
    /// On disk: whom it voted for in that term.
    pub vote: Option<u8>,
    /// On disk.
    pub disk: Record,
    /// In memory; differs from `disk` only in a leader whose write is under way.
    pub newest: Record,
    /// In memory.
    pub role: Role,
    /// On disk.
    pub stage: Stage,
    /// In memory: the claim that waits for its *go*.
    pub claim: Option<u8>,
    /// Claims made so far: each has a number of its own.
    pub claims: u8,
    /// Whether the claim's window is over or its boot has ended; nothing but a broken rule lets a
    /// claim stay after that.
    pub over: bool,
}

/// A leader's record on its way to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Append {
    /// The leader's term.
    pub term: u8,
    /// The leader.
    pub from: u8,
    /// The record.
    pub record: Record,
}

/// What an observer knows who sees everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ghost {
    /// The newest committed record.
    pub truth: Record,
    /// A record was committed that is older than another committed one, or was not made from it.
    pub lost: bool,
    /// Which nodes led each term, one bit for each.
    pub led: [u8; 5],
    /// Which claims of each turn were committed as taken, one bit for each.
    pub taken: [u8; TURNS],
    /// A member acted on a *go* out of its window, or of an earlier boot.
    pub late: bool,
    /// A member acted on a *go* for a claim that was never committed.
    pub early: bool,
}

/// The whole.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The nodes.
    pub nodes: [Node; NODES],
    /// Records that were sent, in order, each once.
    pub appends: Vec<Append>,
    /// Offers that were sent, one bit for each turn.
    pub offers: u8,
    /// Claims that were sent, by turn, one bit for each.
    pub claims: [u8; TURNS],
    /// Each *go* that was sent, by turn, one bit for the claim that it answers.
    pub gos: [u8; TURNS],
    /// What only the properties ask.
    pub ghost: Ghost,
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A node that holds a record enters the next term: vote for itself on disk, then said.
    Stand(u8),
    /// The first node takes the second one's request for its vote.
    Vote(u8, u8),
    /// A candidate has the votes of a majority.
    Lead(u8),
    /// A node takes a leader's record.
    Take(u8, Append),
    /// A leader's own write ends.
    Saved(u8),
    /// A leader commits what a majority holds.
    Commit(u8),
    /// A member that is offered its turn and asked `ready` claims it.
    ClaimTurn(u8),
    /// The claim window has passed without a *go*.
    WindowEnds(u8),
    /// The leader takes a claim of that turn.
    Claimed(u8, u8, u8),
    /// A member takes the *go* for that claim.
    Go(u8, u8),
    /// A begun turn comes to its end on the member.
    Finish(u8),
    /// The leader takes the outcome of that turn.
    Outcome(u8, u8),
    /// The leader's verdict: `turn_timeout` and the claim window have passed.
    Expire(u8, u8),
    /// The daemon dies and starts again from its disk.
    Crash(u8),
}

impl Append {
    /// Whether that node does anything with it. One that it has, and has acknowledged, would at
    /// most take it to a later term, and there it can do less than where it is.
    pub(crate) fn concerns(&self, me: u8, nodes: &[Node; NODES]) -> bool {
        let node = &nodes[usize::from(me)];
        if self.from == me || node.term > self.term {
            return false;
        }
        let mark = self.record.mark();
        mark > node.disk.mark() || (mark == node.disk.mark() && self.waits_for(me, nodes))
    }

    /// Whether its leader still waits for the acknowledgement of that node.
    pub(crate) fn waits_for(&self, me: u8, nodes: &[Node; NODES]) -> bool {
        let leader = &nodes[usize::from(self.from)];
        let is_newest = leader.newest.mark() == self.record.mark();
        match leader.role {
            Role::Leader { acks, idle: false, .. } => {
                leader.term == self.term && is_newest && acks & bit(me) == 0
            }
            _ => false,
        }
    }
}

impl State {
    /// Forgets what can change nothing any more, so that states that differ in nothing else are
    /// one. Terms and records only rise.
    pub(crate) fn forget(&mut self) {
        let nodes = self.nodes;
        let all = 0..NODES as u8;
        self.appends.retain(|append| all.clone().any(|node| append.concerns(node, &nodes)));
        let may_win = |node: u8, term: u8| {
            let node = &nodes[usize::from(node)];
            let stands = matches!(node.role, Role::Candidate { .. }) && node.term == term;
            node.term < term || stands
        };
        for (me, node) in (0..).zip(&mut self.nodes) {
            let mut others = all.clone().filter(|other| *other != me && node.vote != Some(*other));
            if !others.any(|other| may_win(other, node.term)) {
                node.vote = None;
            }
            if node.stage != Stage::Before {
                (node.claim, node.claims, node.over) = (None, 0, false);
            }
        }
        for (term, led) in (0..).zip(&mut self.ghost.led) {
            if led.count_ones() == 1 && !all.clone().any(|node| may_win(node, term)) {
                *led = 0;
            }
        }
        for turn in 0..TURNS {
            let member = &self.nodes[turn + 1];
            if member.stage != Stage::Before {
                self.offers &= !(1 << turn);
            }
            let may_act = member.claim.map_or(0, bit);
            self.gos[turn] &= may_act;
            self.ghost.taken[turn] &= may_act;
            let ended = |record: &Record| record.turns[turn] == Turn::Ended;
            let mut held = self.nodes.iter().flat_map(|node| [&node.disk, &node.newest]);
            if held.all(ended) && self.appends.iter().all(|append| ended(&append.record)) {
                self.claims[turn] = 0;
            }
        }
    }

    /// Whether a node that holds something else than was committed could be elected.
    pub(crate) fn other_could_win(&self) -> bool {
        let truth = &self.ghost.truth;
        self.nodes.iter().any(|node| {
            let differs = node.disk != *truth && !follows(truth, &node.disk);
            let mark = node.disk.mark();
            let would_vote = self.nodes.iter().filter(|voter| voter.disk.mark() <= mark);
            differs && node.disk.version > 0 && would_vote.count() * 2 > NODES
        })
    }
}

/// Whether `record` can have been made from `truth`: no turn goes back, no outcome is forgotten.
pub(crate) fn follows(truth: &Record, record: &Record) -> bool {
    let rank = |turn: &Turn| match turn {
        Turn::Waiting => 0,
        Turn::Offered => 1,
        Turn::Taken(_) => 2,
        Turn::Ended => 3,
    };
    let mut pairs = truth.turns.iter().zip(&record.turns);
    pairs.all(|(old, new)| rank(old) <= rank(new))
        && truth.counted <= record.counted
        && truth.version < record.version
}

pub(crate) const fn bit(number: u8) -> u8 {
    1 << number
}

pub(crate) const fn is_majority(nodes: u8) -> bool {
    nodes.count_ones() as usize * 2 > NODES
}

/// The turn of that node.
pub(crate) const fn turn_of(node: u8) -> Option<u8> {
    node.checked_sub(1)
}

/// Three nodes; each turn is that of one of them.
pub const NODES: usize = 3;
/// Two turns, of the nodes 1 and 2.
pub const TURNS: usize = 2;
