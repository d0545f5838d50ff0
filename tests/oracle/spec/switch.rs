//! The switches: one for each rule in which the engine departs from the reference.

/// A rule of the engine that the reference does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// Nothing waits for another row's encode. The row of a session that left while encoding is free, and a reset one is
    /// seeded, only when that encode has ended.
    NoStall,
    /// ATTACH of an attached session changes nothing.
    Reattach,
    /// RESET keeps the row and the pause state; of an unknown session it attaches, active; where no one may attach in
    /// mid-run it is rejected and the session runs on.
    ResetInPlace,
    /// An empty batch runs no stage.
    NoEmptyBatch,
    /// Every tick runs all steps, also with nothing due, so what is in flight is delivered.
    Flush,
    /// At most two encodes running, then one step.
    SitOutCap,
    /// What a failing callback costs: its rows' chunks, not the tick; retries, isolation, quarantine. No message and no
    /// detach ends the loop.
    Failure,
    /// Finalize is told the rows just collected that did not fail, and is not called for none.
    Finalize,
    /// Messages to unknown sessions are answered; nothing ill-formed gets in.
    Answers,
    /// An ACTION that does not name a heavy key leaves the last pushed value wanted.
    StickyHeavy,
    /// The rows of a seed call ascend.
    SeedOrder,
    /// `due` never steps a paused session.
    DuePause,
}

impl Switch {
    /// Every switch.
    pub const ALL: [Self; 12] = [
        Self::NoStall,
        Self::Reattach,
        Self::ResetInPlace,
        Self::NoEmptyBatch,
        Self::Flush,
        Self::SitOutCap,
        Self::Failure,
        Self::Finalize,
        Self::Answers,
        Self::StickyHeavy,
        Self::SeedOrder,
        Self::DuePause,
    ];

    /// The switch's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoStall => "no-stall",
            Self::Reattach => "reattach",
            Self::ResetInPlace => "reset-in-place",
            Self::NoEmptyBatch => "no-empty-batch",
            Self::Flush => "flush",
            Self::SitOutCap => "sit-out-cap",
            Self::Failure => "failure",
            Self::Finalize => "finalize",
            Self::Answers => "answers",
            Self::StickyHeavy => "sticky-heavy",
            Self::SeedOrder => "seed-order",
            Self::DuePause => "due-pause",
        }
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// A set of switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switches(u16);

impl Switches {
    /// The reference.
    pub const NONE: Self = Self(0);
    /// The engine.
    pub const ALL: Self = Self((1 << Switch::ALL.len()) - 1);

    /// Whether the switch is on.
    pub const fn has(self, switch: Switch) -> bool {
        self.0 & switch.bit() != 0
    }

    /// The set with this switch on as well.
    #[must_use]
    pub const fn with(self, switch: Switch) -> Self {
        Self(self.0 | switch.bit())
    }

    /// The set with this switch off.
    #[must_use]
    pub const fn without(self, switch: Switch) -> Self {
        Self(self.0 & !switch.bit())
    }
}
