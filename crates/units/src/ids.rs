//! Arena indices. External names are looked up once, at the edge.

use core::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The id as an index into its arena.
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            /// The id of arena slot `index`; `None` beyond 2^32 slots.
            #[must_use]
            pub fn from_index(index: usize) -> Option<Self> {
                u32::try_from(index).ok().map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "#{}", self.0)
            }
        }
    };
}

id!(
    /// A host or a switch of a fabric.
    NodeId
);
id!(
    /// A directed link of a fabric or of a circle problem.
    LinkId
);
id!(
    /// A training job of a problem.
    JobId
);
