//! Links the plugin so that it is never unloaded, and so that it exports what NCCL looks for and nothing else.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // NCCL closes its plugins after the last communicator. Threads of its own may be in a callback then, and the gate below has
    // thread-local state with destructors; so the library stays mapped.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // The C interface of the gate is in here too, as of any crate below, and would stand beside that of the gate's own library.
    println!("cargo::rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
}
