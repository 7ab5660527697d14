//! A gate library, loaded to see that jobs can load it.
//!
//! Loading runs what is in the file, so whoever asks about a file that may be anything asks in a process of its own: `antiphase doctor`
//! does, with a bound.

use std::{
    ffi::{CStr, CString, OsStr, c_char, c_void},
    mem::transmute,
    os::unix::ffi::OsStrExt as _,
};

/// The library's name for the system's loader.
pub const NAME: &str = "libantiphase_gate.so";

/// What a loaded library says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// Its version, `major.minor.patch`.
    pub version: String,
    /// The version of its interface; this release has [`ABI`].
    pub abi: u32,
}

pub use crate::capi::ABI;

/// Loads a library, by its path or by a name that the system's loader finds, and leaves it loaded.
///
/// # Errors
/// What the loader says, or what the file lacks, in one line.
pub fn load(file: &OsStr) -> Result<Library, String> {
    let name = CString::new(file.as_bytes()).map_err(|_| format!("{file:?} has a zero byte"))?;
    // SAFETY: the name is a C string. The initialisers of a gate library do nothing; another file is the caller's risk (see above).
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        return Err(last_error());
    }
    let lacks = |symbol: &CStr| format!("{} has no {}: it is no gate library", file.display(), symbol.to_string_lossy());
    let address = |symbol: &CStr| {
        // SAFETY: the handle is of a library that stays loaded, and the name is a C string.
        let address: *mut c_void = unsafe { libc::dlsym(handle, symbol.as_ptr()) };
        if address.is_null() { Err(lacks(symbol)) } else { Ok(address) }
    };
    let (version, abi) = (address(c"antiphase_gate_version")?, address(c"antiphase_gate_abi")?);
    // SAFETY: both symbols are functions of these types in every version of `include/antiphase_gate.h`.
    let (version, abi) = unsafe {
        (transmute::<*mut c_void, extern "C" fn() -> *const c_char>(version), transmute::<*mut c_void, extern "C" fn() -> u32>(abi))
    };
    // SAFETY: the header promises a C string that stays.
    let version = unsafe { CStr::from_ptr(version()) }.to_string_lossy().into_owned();
    Ok(Library { version, abi: abi() })
}

fn last_error() -> String {
    // SAFETY: the text stays until the next call of the loader in this thread; it is copied before.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "the loader gives no reason".to_owned();
    }
    // SAFETY: not null, and a C string (dlerror(3)).
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_gate_library_is_named() {
        assert!(load("/nowhere/libantiphase_gate.so".as_ref()).unwrap_err().contains("/nowhere/libantiphase_gate.so"));
        assert_eq!(load("libc.so.6".as_ref()).unwrap_err(), "libc.so.6 has no antiphase_gate_version: it is no gate library");
        assert!(load("a\0b".as_ref()).unwrap_err().contains("zero byte"));
    }
}
