//! Why a start went when it did.

use core::fmt;

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $word:literal, $open:literal;)*) => {
        /// Why a start went when it did. The numbers are part of the C interface and of report files: they never change.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum Reason {
            $($(#[$doc])* $name = $code,)*
        }

        impl Reason {
            /// All of them, in the order of their numbers, which have no gaps.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// How many there are.
            pub const COUNT: usize = Self::ALL.len();

            /// The word for it in logs, metrics and reports.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }

            /// Whether the gate let the job go because the plan could not be trusted or followed.
            #[must_use]
            pub const fn is_fail_open(self) -> bool {
                match self { $(Self::$name => $open,)* }
            }
        }
    };
}

reasons! {
    /// The start is in its slot: early and held, or late by no more than the tolerance.
    OnTime = 0, "on-time", false;
    /// The plan says that the job runs as it comes.
    NotHeld = 1, "not-held", false;
    /// The gate is switched off in this process.
    Off = 2, "off", false;
    /// Another thread of this process is in the gate, or a gate that was opened later takes the job's turns.
    Busy = 3, "busy", false;
    /// There is no schedule page for the job.
    NoPage = 4, "no-page", true;
    /// There is one, but it cannot be read or is not to be trusted.
    Unreadable = 5, "unreadable", true;
    /// The page has a layout that this gate does not know.
    Layout = 6, "layout", true;
    /// The page was being written for too long.
    Torn = 7, "torn", true;
    /// The agent's heartbeat on the page is too old.
    Stale = 8, "stale", true;
    /// The plan has expired, or will have at the slot.
    Expired = 9, "expired", true;
    /// The agent does not know fabric time well enough: the error bound exceeds the slack.
    ClockBound = 10, "clock-bound", true;
    /// The page was written in the future: this process and the agent do not share a clock.
    ClockStep = 11, "clock-step", true;
    /// The numbers on the page make no sense.
    Malformed = 12, "malformed", true;
    /// The wait would be longer than allowed.
    HoldTooLong = 13, "hold-too-long", true;
    /// A defect of the gate itself.
    Internal = 14, "internal", true;
    /// The start takes its turn: nobody with whom the job takes turns sends, or those ahead have ended.
    Granted = 15, "granted", false;
    /// Those ahead of the start should have ended by now.
    NotBefore = 16, "not-before", false;
    /// Nobody answered that the job is ready: the agent or the service is not there.
    Unheard = 17, "unheard", true;
}

impl Reason {
    /// The number of this reason.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The reason of a number; `None` for one of a later version.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        // The numbers begin at 0 and have no gaps, so a code is its own index.
        Self::ALL.get(usize::from(code)).copied()
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_dense_and_go_both_ways() {
        for (number, &reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(usize::from(reason.code()), number);
            assert_eq!(Reason::from_code(reason.code()), Some(reason));
        }
        assert_eq!(Reason::from_code(Reason::COUNT as u8), None);
    }
}
