//! A fabric of network namespaces with real traffic and real ECN marks.
#![forbid(unsafe_code)]
