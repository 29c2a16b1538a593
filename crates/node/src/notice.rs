//! What a line of the journal is about. Each has a MESSAGE_ID of its own, under which the journal's
//! catalog says what it means and what to do: `journalctl -x`.
//!
//! Invariant: an id is never given to another notice and never changed: filters and alerts of
//! operators are written with it.

/// Declares the notices with their ids in one place, so that none can be without.
macro_rules! notices {
    ($($(#[$doc:meta])* $name:ident = $id:literal,)*) => {
        /// What a line is about.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Notice {
            $($(#[$doc])* $name,)*
        }

        impl Notice {
            /// Every notice, in the order of the catalog.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The number that the journal writes as `MESSAGE_ID`, in 32 hexadecimal digits.
            pub const fn message_id(self) -> u128 {
                match self {
                    $(Self::$name => $id,)*
                }
            }
        }
    };
}

notices! {
    /// A rollout was under way when this node first heard of the group.
    RolloutUnderWay = 0x677fb273930f40fc86afc26183075c7e,
    /// A rollout begins.
    RolloutBegins = 0x2dd70e9096774a1eab74f73c683d1181,
    /// Members fetch the target.
    RolloutPreparing = 0x89a88cdb7339409395480b9c298e5334,
    /// Every member has the target: the turns begin.
    RolloutTurnsBegin = 0x45bf00079f1a426c8dc3af8a3908f1e4,
    /// A paused rollout goes on.
    RolloutGoesOn = 0x53d2d0df92de4fb49a906d73d05094bc,
    /// A rollout is paused.
    RolloutPaused = 0x8e4eaafe52c24d32bf515f0ad93ed055,
    /// A rollout takes its members back to the baseline.
    RolloutRollsBack = 0x7cbb9fbc06b0460ab7ffa87b13cd6e78,
    /// The way back is paused.
    RolloutRollbackPaused = 0x867481f982b443d3a04811627d62f9c1,
    /// A rollout is to end once its turns under way have ended.
    RolloutEnding = 0xe634df62498840a590a065f79fef4359,
    /// A rollout ended with every member on the target.
    RolloutCompleted = 0xb977c0c9d310474d905efb6aa4da9507,
    /// A rollout ended without some of its members.
    RolloutCompletedWithExceptions = 0x6adc2c766a434e599baeb09cf0bfc5fb,
    /// A rollout was ended where it stood.
    RolloutCancelled = 0x544757d7b187491f9c181e61c6dc0d4d,
    /// A rollout made way for a newer target.
    RolloutSuperseded = 0xc3f548c1847740cab739d827949ca430,
    /// A rollout ended back at the baseline.
    RolloutRolledBack = 0xad80c533bef24193a26f3b3d551dd9c2,
    /// What the leader says of a rollout, at a member without a vote.
    RolloutHeardOf = 0x7cda06d51de44bd987f023ba374b07ad,
    /// A member is offered its turn.
    TurnOffered = 0x52647c7364ad481fb91ce8a0f8a0987e,
    /// A member was told *go*.
    TurnTaken = 0xfa31e0d1aa7b4559acb29d1aded072f9,
    /// A member is healthy in its turn, and has to stay so.
    TurnMonitoring = 0x1fda32f8b251487baf3b0cab191903d1,
    /// A member has passed.
    TurnPassed = 0xbcdcf39556f14d749cb80aa134ee5b72,
    /// A member has failed.
    TurnFailed = 0xe12f968ab9424fdbabac059d0dea8bc6,
    /// A member is left out.
    TurnSkipped = 0x164c0bfad7d44129bf16a69b39acde4c,
    /// A member was not there for its turn.
    TurnAbsent = 0x2c3275a9dd5944f9aff26a3e62d22500,
    /// A member waits for its turn once more.
    TurnGivenBack = 0x3601c6fd1feb45648e7f77df155536ad,
    /// A person has paused the group.
    GroupPaused = 0x68fde00ebf52490d91181af682d1ac68,
    /// The typed pause of the group is over.
    GroupResumed = 0xa6ea8f3829934d4fa12692697c824262,
    /// A member is kept out of rollouts.
    MemberCordoned = 0x19bace457e724e5888752dad8f60c2ef,
    /// A member takes part in rollouts again.
    MemberUncordoned = 0xf24f3a7592954edb87053bbf97c3c778,
    /// The group has a new baseline.
    BaselineChanged = 0x580985b1df944c55b69876899a516fce,
    /// A target starts nothing by itself any more.
    TargetRejected = 0x3a6ae0fa97984b5cba663ee4b74e7fef,
    /// This node stops what it runs for its turn.
    OwnTurnGo = 0x8425cce7973545a6a8e4e1ce6a94f65f,
    /// This machine reboots for its turn.
    OwnTurnReboot = 0xf575285a150d418fa34e8c12ec9743b7,
    /// This node's turn waits for the boot of its machine to complete.
    OwnTurnAwaitsBoot = 0x556980c53c9c4b47a0bf0215c7eccf56,
    /// This node's turn has ended by its own judgement.
    OwnTurnEnded = 0xd394daa66a55494890b0f43a29a6058c,
    /// The boot of this machine is complete.
    BootComplete = 0x6e1693e3d6d340b3aaebe94fd3dc77f7,
    /// A service is loaded.
    ServiceLoaded = 0xbcf3519c57c24214ab8cceaa482ff8cb,
    /// A service is unloaded.
    ServiceUnloaded = 0xbf02c71cae684ab484318535c4e7a01d,
    /// A program that outlived its daemon is taken over.
    ServiceTakenOver = 0xf28e247757834f9e9e7e80897d029bdd,
    /// A program that outlived its daemon is not the one that should run.
    ServiceForeign = 0xf1ad952fe8974685a058ed3a5713c4aa,
    /// A program was started.
    ServiceStarted = 0xdb681043f95840b19a6a884b8ba6e873,
    /// A service is healthy.
    ServiceHealthy = 0x0c44c0a4feb648f19cbae8b339593505,
    /// A service is not healthy.
    ServiceUnhealthy = 0xcdecf55f193f4dcab44a6186098331cf,
    /// A service is checked anew after a standstill of the machine.
    ServiceCheckedAnew = 0x61bba8a8001a4845a991079c5e6bb38d,
    /// A program ended by itself.
    ServiceExited = 0x77f0c1700e52423a8f979f4d3c8eb864,
    /// A program could not be started.
    ServiceStartFailed = 0xf0e67b16fadd4d86939a252d809d1846,
    /// A `post_stop` hook failed.
    ServiceHookFailed = 0xc988ba7ed85247cbad2a717f3ffd47e2,
    /// A program was stopped.
    ServiceStopped = 0x24c35ec85e884b8e955ba6d604ee444a,
    /// A program will be started again.
    ServiceRestartScheduled = 0x0d905d0c07f8461b8eb6184b31293411,
    /// What a service is to run is not on this machine and cannot be fetched.
    ServiceNotRestored = 0x27742093c9944c6fbf38b81a3807404b,
    /// A group has a leader.
    LeaderElected = 0xf548be9ef2084b5fbbe1be7308c010d8,
    /// A group has no leader.
    LeaderLost = 0x39b0b0b178804521bdfb55e685908245,
    /// The ledger did something.
    LedgerNote = 0xb3faf84c8e724b569136858dff83e56f,
    /// The ledger wants an eye.
    LedgerWarning = 0x333312dcf2944a698c278aa627359011,
    /// The ledger's record was written by a newer build.
    LedgerUnreadable = 0x7c4ee9471a5f42e88674487e1bec2e93,
    /// A decision could not be written.
    LedgerNotWritten = 0x5cdfe6dc96a14858985989e3f8eda30a,
    /// Two histories of one group have met.
    LineagesMet = 0x0449ba4d86fb462abf92a020543ae203,
    /// A group is being formed anew.
    GroupReformed = 0x9245a3aa2af145cfaf81b9b2e8b544dc,
    /// A channel cannot be read.
    ChannelUnreadable = 0x5d9dc51f6abc41ccb44bba4258c6de54,
    /// A channel can be read again.
    ChannelReadable = 0xa118a33e3ac243608f179b23800f7eeb,
    /// A member of the ring came, went or is suspected.
    MemberChanged = 0x93c1e864a7884e5e832ea4fc955b2aaf,
    /// This node has left the ring.
    RingLeft = 0x610e9dfa9db946e29c46825b250a2abb,
    /// None of the join addresses answers.
    RingAlone = 0x455211497eac403e92e9728dc56fad7d,
    /// The ring wants an eye.
    RingWarning = 0x6232d23f20e24a488edf53ec5bfb4857,
    /// Two builds have no version of the wire in common.
    WireTooFarApart = 0x31361b05989743e0aba6bfd8ed6f2d92,
    /// A durable file is damaged.
    FileDamaged = 0x1bdc06b06d1b449e920528ca2054075a,
    /// A durable file could not be written.
    WriteFailed = 0xbff8f4167ebb4ee5b7ae3486698e6afb,
    /// A fact is too large to be told to the ring.
    FactTooLarge = 0x9a776fea43d344cea3af3c2035201a6b,
}
