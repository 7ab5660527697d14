//! Counters of NICs, period learning and LLDP neighbours.
#![forbid(unsafe_code)]
