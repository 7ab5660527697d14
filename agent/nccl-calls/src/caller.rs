//! Who calls us, by the stack. Asked for only where a process has several NCCLs.

use std::{
    ffi::{CStr, CString, c_int, c_void},
    mem::MaybeUninit,
};

/// Frames up the stack that are looked at: the caller is the first that is not ours, unless it left its frame before (a tail call).
const FRAMES_MAX: usize = 32;
/// `_URC_NO_REASON` and `_URC_END_OF_STACK` of the unwinder, which comes with the standard library.
const GO_ON: c_int = 0;
const ENOUGH: c_int = 5;

unsafe extern "C" {
    fn _Unwind_Backtrace(each: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int, with: *mut c_void) -> c_int;
    fn _Unwind_GetIP(frame: *mut c_void) -> usize;
}

/// The libraries of the frames up the stack, nearest first, each once and without ours.
pub(crate) fn libraries() -> Vec<CString> {
    let mut addresses: Vec<usize> = Vec::with_capacity(FRAMES_MAX);
    // SAFETY: the function below takes what is passed here.
    unsafe { _Unwind_Backtrace(address_of, (&raw mut addresses).cast()) };
    let mut libraries: Vec<CString> = Vec::new();
    for at in addresses {
        let at = std::ptr::without_provenance::<c_void>(at);
        if let Some(library) = library_of(at).filter(|library| !is_ours(at) && !libraries.contains(library)) {
            libraries.push(library);
        }
    }
    libraries
}

/// # Safety
/// As the unwinder calls it for [`libraries`].
unsafe extern "C" fn address_of(frame: *mut c_void, addresses: *mut c_void) -> c_int {
    // SAFETY: the unwinder's frame, and the list that `libraries` passed.
    let (at, addresses) = unsafe { (_Unwind_GetIP(frame), &mut *addresses.cast::<Vec<usize>>()) };
    addresses.push(at);
    if addresses.len() < FRAMES_MAX { GO_ON } else { ENOUGH }
}

/// The file of the library that an address is in.
pub(crate) fn library_of(at: *const c_void) -> Option<CString> {
    let found = found(at)?;
    // SAFETY: the loader's name of a library that is loaded.
    (!found.dli_fname.is_null()).then(|| unsafe { CStr::from_ptr(found.dli_fname) }.to_owned())
}

/// Whether an address is in this library.
pub(crate) fn is_ours(at: *const c_void) -> bool {
    let base = |at| found(at).map(|found| found.dli_fbase);
    base(at).is_some_and(|there| Some(there) == base(is_ours as fn(*const c_void) -> bool as *const c_void))
}

fn found(at: *const c_void) -> Option<libc::Dl_info> {
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: any address may be asked for, and the structure may be written.
    let is_found = unsafe { libc::dladdr(at, found.as_mut_ptr()) } != 0;
    // SAFETY: zeroes are a value of it, and the loader wrote the rest.
    is_found.then(|| unsafe { found.assume_init() })
}
