//! Links the library so that it exports the functions of NCCL that it stands before, and nothing else.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The C interface of the gate is in here too, as of any crate below. A preloaded library comes before all others, so a job's own
    // gate would find this one in the place of its library's.
    println!("cargo::rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
    // A preloaded library is never unloaded, and who loads it otherwise must not unload it while a call is inside.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
