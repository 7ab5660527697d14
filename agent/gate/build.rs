//! Links the shared library so that it is never unloaded, and tells rustc of the flag that the loom run sets.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(loom)");
    // The library registers a handler for fork and has thread-local state with destructors. A program that closes it
    // again (communication libraries do that with their plugins) would jump into unmapped code; so it stays mapped.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
