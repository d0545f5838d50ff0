//! What waits of each row and what consumers have of it: chunks lie in buffers, of which a row has so many.

/// What is lost when a consumer is slow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    Oldest,
    Newest,
    Hold,
}

/// The buffers of all rows have these.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub policy: Policy,
    pub depth: u64,
    /// All of them but those that are being filled.
    pub buffers: u64,
}

/// One row.
#[derive(Clone, Default, Debug)]
pub struct Ring {
    /// Chunks that wait, all of the life that is there now.
    pub queued: u64,
    /// Outputs in hand, of whatever life.
    pub held: u64,
    /// Of those: in the buffers that are in use now. A new session finds new ones where any was still out.
    held_of_these: u64,
    /// Which buffers those are.
    number: u64,
}

impl Ring {
    /// A chunk comes. How many are lost.
    pub fn push(&mut self, shape: Shape) -> u64 {
        let mut lost = 0;
        if self.queued >= shape.depth {
            if shape.policy != Policy::Oldest {
                return 1;
            }
            self.queued -= 1;
            lost += 1;
        }
        while self.queued + self.held_of_these >= shape.buffers {
            if shape.policy != Policy::Oldest || self.queued == 0 {
                return lost + 1;
            }
            self.queued -= 1;
            lost += 1;
        }
        self.queued += 1;
        lost
    }

    /// A chunk is taken; gives which buffers it is in.
    pub fn pop(&mut self) -> u64 {
        self.queued -= 1;
        self.held += 1;
        self.held_of_these += 1;
        self.number
    }

    pub fn release(&mut self, number: u64) {
        self.held -= 1;
        self.held_of_these -= u64::from(number == self.number);
    }

    /// Another session comes into the row, which is free.
    pub fn renew(&mut self) {
        if self.queued + self.held_of_these > 0 {
            self.number += 1;
            self.held_of_these = 0;
        }
    }
}
