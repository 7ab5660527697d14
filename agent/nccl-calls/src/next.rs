//! NCCL's own functions behind ours.
//!
//! Where NCCL's names are seen by all, as in a program that links it, the loader knows which comes after ours. Python hides them: it loads
//! a library so that only that one sees the names of what it links, so those have to be asked for from each library's own view. A process
//! can then have two NCCLs, and a communicator of one must not meet a function of the other: where several are found, each call goes to
//! the one that its caller sees.

use std::{
    ffi::{CStr, CString, c_int, c_void},
    ptr::{self, NonNull},
    sync::atomic::{AtomicPtr, Ordering},
};

use crate::caller;

/// Libraries of a process that are asked: PyTorch brings some two hundred.
const LIBRARIES_MAX: usize = 4_096;

/// One of NCCL's functions.
#[derive(Debug)]
pub(crate) struct Next {
    name: &'static CStr,
    /// Null while it was not looked for or not found, [`MANY`] where it depends on who calls.
    at: AtomicPtr<c_void>,
}

/// No function is here.
const MANY: *mut c_void = ptr::without_provenance_mut(1);

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, at: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Where it is. One load, where it was found before and there is only one.
    #[inline]
    pub(crate) fn get(&self) -> Option<NonNull<c_void>> {
        let at = self.at.load(Ordering::Relaxed);
        if at.is_null() || at == MANY { self.ask(at) } else { NonNull::new(at) }
    }

    /// Slow: takes the loader's lock.
    #[cold]
    fn ask(&self, mut at: *mut c_void) -> Option<NonNull<c_void>> {
        if at.is_null() {
            find(&[self]);
            at = self.at.load(Ordering::Relaxed);
        }
        if at != MANY {
            return NonNull::new(at);
        }
        let seen = caller::libraries().into_iter().find_map(|library| Opened::new(&library)?.symbol(self.name));
        // No library on the call stack has the function, so any library that has it is taken.
        seen.or_else(|| opened().iter().find_map(|library| library.symbol(self.name)))
    }
}

/// Looks for functions; also for those that were found, because a library that came since may bring another NCCL.
pub(crate) fn find(all: &[&Next]) {
    let mut hidden = Vec::new();
    for next in all {
        // SAFETY: a name of C. The loader's own answer stands first, also where a library between us and NCCL watches too.
        let seen = unsafe { libc::dlsym(libc::RTLD_NEXT, next.name.as_ptr()) };
        if seen.is_null() { hidden.push(*next) } else { next.at.store(seen, Ordering::Relaxed) }
    }
    if hidden.is_empty() {
        return;
    }
    let libraries = opened();
    for next in hidden {
        let mut found = None;
        for at in libraries.iter().filter_map(|library| library.symbol(next.name)) {
            if found.is_some_and(|found| found != at) {
                next.at.store(MANY, Ordering::Relaxed);
                break;
            }
            found = Some(at);
        }
        // Once several libraries were found, each call asks again, because one may be loaded anew.
        if let Some(at) = found.filter(|_| next.at.load(Ordering::Relaxed) != MANY) {
            keep(at);
            next.at.store(at.as_ptr(), Ordering::Relaxed);
        }
    }
}

/// From now on it is called without being looked for, so its library has to stay.
fn keep(at: NonNull<c_void>) {
    let library = caller::library_of(at.as_ptr());
    // One more reference, never given back.
    std::mem::forget(library.and_then(|library| Opened::new(&library)));
}

/// A library that is loaded, with one more reference while this is kept.
struct Opened(NonNull<c_void>);

impl Opened {
    /// `None` for what is not loaded.
    fn new(name: &CStr) -> Option<Self> {
        // SAFETY: a name of C. Nothing is loaded that is not, so no code runs.
        NonNull::new(unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) }).map(Self)
    }

    /// What the library, or what it links, has under a name, unless that is ours.
    fn symbol(&self, name: &CStr) -> Option<NonNull<c_void>> {
        // SAFETY: the library is open, and the name is one of C.
        let at = NonNull::new(unsafe { libc::dlsym(self.0.as_ptr(), name.as_ptr()) })?;
        (!caller::is_ours(at.as_ptr())).then_some(at)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: opened once, closed once.
        unsafe { libc::dlclose(self.0.as_ptr()) };
    }
}

/// All libraries of this process.
fn opened() -> Vec<Opened> {
    let mut names: Vec<CString> = Vec::new();
    // SAFETY: the function below takes what is passed here.
    unsafe { libc::dl_iterate_phdr(Some(name_of), (&raw mut names).cast()) };
    names.iter().filter_map(|name| Opened::new(name)).collect()
}

/// # Safety
/// As `dl_iterate_phdr` calls it for [`opened`].
unsafe extern "C" fn name_of(library: *mut libc::dl_phdr_info, _bytes: usize, names: *mut c_void) -> c_int {
    // SAFETY: the loader's structure, and the list that `opened` passed.
    let (name, names) = unsafe { ((*library).dlpi_name, &mut *names.cast::<Vec<CString>>()) };
    // The program itself has no name, and what it sees the loader has said.
    if !name.is_null() && names.len() < LIBRARIES_MAX {
        // SAFETY: a name of C, which is copied while the loader's lock is held.
        let name = unsafe { CStr::from_ptr(name) };
        if !name.is_empty() {
            names.push(name.to_owned());
        }
    }
    0
}
