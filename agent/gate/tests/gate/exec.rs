//! `gate exec`: the start of a program is held, and the program is what the process becomes.
