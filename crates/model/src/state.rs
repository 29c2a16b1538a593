//! What the model of a group consists of: nodes, their record, messages, and what an observer knows.
//!
//! Invariant: a message is forgotten only when no node can do anything with it, now or later.

use std::collections::BTreeSet;

/// The group's record: what the ledger keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// With `version` its place.
    pub term: u8,
    /// Rises by one from record to record.
    pub version: u8,
    /// The turns.
    pub turns: [Turn; TURNS],
    /// Outcomes that were counted.
    pub counted: u8,
}

impl Record {
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
    Follower {
        /// Whether it hears a leader: then it neither votes nor promises.
        hears: bool,
        /// Whether a majority promised its votes (of three: one other node did).
        promised: bool,
    },
    /// Its vote for itself is on its disk; who else voted for it.
    Candidate {
        /// One bit for each node.
        votes: u8,
    },
    /// Leads its term.
    Leader {
        /// Who acknowledged the newest record, one bit for each node.
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
    /// On disk: its outcome is said.
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

/// A message that was sent. Those without a receiver go to everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Message {
    /// A candidate asks for votes; its record's place.
    Vote {
        /// The candidate's term.
        term: u8,
        /// The candidate.
        from: u8,
        /// What it holds.
        mark: (u8, u8),
    },
    /// A vote.
    Voted {
        /// In which term.
        term: u8,
        /// The voter.
        from: u8,
        /// The candidate.
        to: u8,
    },
    /// A leader's record.
    Append {
        /// The leader's term.
        term: u8,
        /// The leader.
        from: u8,
        /// What it has to be.
        mark: (u8, u8),
        /// Its content.
        turns: [Turn; TURNS],
        /// Its content.
        counted: u8,
    },
    /// A follower's acknowledgement: what it holds on disk.
    Held {
        /// Its term.
        term: u8,
        /// The follower.
        from: u8,
        /// The record's place.
        mark: (u8, u8),
    },
    /// Leader to member: your turn.
    Offer {
        /// Which.
        turn: u8,
    },
    /// Member to leader: may I?
    Claim {
        /// Which turn.
        turn: u8,
        /// The claim.
        claim: u8,
    },
    /// Leader to member: you may.
    Go {
        /// Which turn.
        turn: u8,
        /// The claim that it answers.
        claim: u8,
    },
    /// Member to leader: it has ended.
    Outcome {
        /// Which turn.
        turn: u8,
    },
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
    /// A leader changed while a turn was open.
    pub changed: bool,
    /// A node crashed in its begun turn.
    pub crashed: bool,
}

/// The whole.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The nodes.
    pub nodes: [Node; NODES],
    /// Every message ever sent.
    pub sent: BTreeSet<Message>,
    /// Crashes so far.
    pub crashes: u8,
    /// What only the properties ask.
    pub ghost: Ghost,
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A follower hears no leader for the election timeout; a leader no majority.
    Silence(u8),
    /// The second node promises the first one its vote (pre-vote). A promise changes nothing at
    /// the one that gives it and may arrive at any time, so question and answer are one step.
    Promise(u8, u8),
    /// With the promises of a majority: next term, vote for itself on disk, ask for votes.
    Stand(u8),
    /// The node takes the message.
    Take(u8, Message),
    /// A leader's own write ends.
    Saved(u8),
    /// A leader commits what a majority holds.
    Commit(u8),
    /// A member that is offered its turn and asked `ready` claims it.
    ClaimTurn(u8),
    /// The claim window has passed without a *go*.
    WindowEnds(u8),
    /// A begun turn comes to its end on the member.
    Finish(u8),
    /// The leader's verdict: `turn_timeout` and the claim window have passed.
    Expire(u8, u8),
    /// The daemon dies and starts again from its disk.
    Crash(u8),
}

impl Message {
    /// Whether that node does anything with it: the rest of the orders need not be tried.
    pub(crate) fn concerns(&self, me: u8, node: &Node) -> bool {
        let leads = matches!(node.role, Role::Leader { .. });
        match *self {
            Self::Vote { term, from, .. } => from != me && term >= node.term && !leads,
            Self::Append { term, from, .. } => from != me && term >= node.term,
            Self::Voted { term, to, .. } => to == me && term == node.term,
            Self::Held { term, from, .. } => from != me && leads && term >= node.term,
            Self::Claim { .. } | Self::Outcome { .. } => {
                matches!(node.role, Role::Leader { idle: true, .. })
            }
            Self::Go { turn, .. } => turn_of(me) == Some(turn) && node.stage == Stage::Before,
            Self::Offer { .. } => false,
        }
    }

    /// Whether it can still change anything, now or later: terms only rise, and a claim that is
    /// not in its member's memory never comes back to it.
    fn matters(&self, nodes: &[Node; NODES]) -> bool {
        let others = |from: u8| (0..).zip(nodes).filter(move |(node, _)| *node != from);
        match *self {
            Self::Vote { term, from, .. } | Self::Append { term, from, .. } => {
                others(from).any(|(_, node)| node.term <= term)
            }
            Self::Voted { term, to, from } => {
                let node = &nodes[usize::from(to)];
                let counted =
                    matches!(node.role, Role::Candidate { votes } if votes & bit(from) != 0);
                let waits = matches!(node.role, Role::Candidate { .. });
                node.term == term && waits && !counted
            }
            Self::Held { term, from, mark } => others(from).any(|(_, node)| match node.role {
                Role::Leader { acks, .. } if node.term == term => {
                    node.newest.mark() == mark && acks & bit(from) == 0
                }
                _ => node.term < term,
            }),
            Self::Offer { turn } => nodes[usize::from(turn) + 1].stage == Stage::Before,
            Self::Go { turn, claim } => {
                let member = &nodes[usize::from(turn) + 1];
                let is_to_come = claim > member.claims;
                member.stage == Stage::Before && (member.claim == Some(claim) || is_to_come)
            }
            Self::Claim { .. } | Self::Outcome { .. } => true,
        }
    }
}

impl State {
    /// Forgets messages that can change nothing any more, so that states that differ in nothing
    /// else are one.
    pub(crate) fn forget(&mut self) {
        let nodes = self.nodes;
        self.sent.retain(|message| message.matters(&nodes));
    }

    /// Whether a node that holds something else than was committed could be elected.
    pub(crate) fn other_could_win(&self) -> bool {
        let truth = &self.ghost.truth;
        self.nodes.iter().any(|node| {
            let differs = node.disk != *truth && !follows(truth, &node.disk);
            let mark = node.disk.mark();
            let would_vote = self.nodes.iter().filter(|voter| voter.disk.mark() <= mark);
            differs && would_vote.count() * 2 > NODES
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

pub(crate) const fn bit(node: u8) -> u8 {
    1 << node
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
