//! The gate that training jobs call: schedule page in shared memory, C ABI.
#![forbid(unsafe_code)]
