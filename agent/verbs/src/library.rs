//! The library, loaded when the program runs: a linked program would not even start where it is missing (docs/adr/0009).

use std::{
    ffi::{CStr, CString, OsStr, c_char, c_int, c_void},
    mem::{size_of, transmute_copy},
    os::unix::ffi::OsStrExt,
};

use crate::abi::{
    AsyncEvent, Channel, CompletionQueue, Context, Device, DeviceAttributes, Domain, PortAttributes, QueueOptions, QueuePair, QueueState,
    Region,
};

/// Name of the library, which the system's loader looks for.
pub const NAME: &str = "libibverbs.so.1";
/// The version of its interface that `abi` describes. Symbols of the same names and version 1.0 take other structures.
const VERSION: &CStr = c"IBVERBS_1.1";

/// Why there is no library.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The loader does not find it, or cannot load it.
    #[error("library missing: {0}; install libibverbs1 and ibverbs-providers")]
    Missing(String),
    /// Something is loaded that is no libibverbs.
    #[error("library missing: {library} has no {symbol} of IBVERBS_1.1; it is no libibverbs of 2008 or later")]
    Symbol {
        /// What was loaded.
        library: String,
        /// What it lacks.
        symbol: String,
    },
}

/// The functions. The library is never unloaded, because its drivers start threads and keep handlers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Library {
    pub(crate) get_device_list: unsafe extern "C" fn(*mut c_int) -> *mut *mut Device,
    pub(crate) free_device_list: unsafe extern "C" fn(*mut *mut Device),
    pub(crate) get_device_name: unsafe extern "C" fn(*mut Device) -> *const c_char,
    pub(crate) open_device: unsafe extern "C" fn(*mut Device) -> *mut Context,
    pub(crate) close_device: unsafe extern "C" fn(*mut Context) -> c_int,
    pub(crate) query_device: unsafe extern "C" fn(*mut Context, *mut DeviceAttributes) -> c_int,
    pub(crate) query_port: unsafe extern "C" fn(*mut Context, u8, *mut PortAttributes) -> c_int,
    pub(crate) get_async_event: unsafe extern "C" fn(*mut Context, *mut AsyncEvent) -> c_int,
    pub(crate) ack_async_event: unsafe extern "C" fn(*mut AsyncEvent),
    pub(crate) alloc_pd: unsafe extern "C" fn(*mut Context) -> *mut Domain,
    pub(crate) dealloc_pd: unsafe extern "C" fn(*mut Domain) -> c_int,
    pub(crate) reg_mr: unsafe extern "C" fn(*mut Domain, *mut c_void, usize, c_int) -> *mut Region,
    pub(crate) dereg_mr: unsafe extern "C" fn(*mut Region) -> c_int,
    pub(crate) create_comp_channel: unsafe extern "C" fn(*mut Context) -> *mut Channel,
    pub(crate) destroy_comp_channel: unsafe extern "C" fn(*mut Channel) -> c_int,
    pub(crate) create_cq: unsafe extern "C" fn(*mut Context, c_int, *mut c_void, *mut Channel, c_int) -> *mut CompletionQueue,
    pub(crate) destroy_cq: unsafe extern "C" fn(*mut CompletionQueue) -> c_int,
    pub(crate) get_cq_event: unsafe extern "C" fn(*mut Channel, *mut *mut CompletionQueue, *mut *mut c_void) -> c_int,
    pub(crate) ack_cq_events: unsafe extern "C" fn(*mut CompletionQueue, u32),
    pub(crate) create_qp: unsafe extern "C" fn(*mut Domain, *mut QueueOptions) -> *mut QueuePair,
    pub(crate) modify_qp: unsafe extern "C" fn(*mut QueuePair, *mut QueueState, c_int) -> c_int,
    pub(crate) destroy_qp: unsafe extern "C" fn(*mut QueuePair) -> c_int,
}

impl Library {
    /// Loads the library from a file, or by a name that the system's loader finds.
    pub(crate) fn load(library: &OsStr) -> Result<Self, LoadError> {
        let found = Loaded::open(library)?;
        // SAFETY: each type is that of the function of this name in `infiniband/verbs.h` of version IBVERBS_1.1, with the structures
        // of `abi`; `Loaded::symbol` asks for that version, so a library that has the name has that function.
        unsafe {
            Ok(Self {
                get_device_list: found.symbol(c"ibv_get_device_list")?,
                free_device_list: found.symbol(c"ibv_free_device_list")?,
                get_device_name: found.symbol(c"ibv_get_device_name")?,
                open_device: found.symbol(c"ibv_open_device")?,
                close_device: found.symbol(c"ibv_close_device")?,
                query_device: found.symbol(c"ibv_query_device")?,
                query_port: found.symbol(c"ibv_query_port")?,
                get_async_event: found.symbol(c"ibv_get_async_event")?,
                ack_async_event: found.symbol(c"ibv_ack_async_event")?,
                alloc_pd: found.symbol(c"ibv_alloc_pd")?,
                dealloc_pd: found.symbol(c"ibv_dealloc_pd")?,
                reg_mr: found.symbol(c"ibv_reg_mr")?,
                dereg_mr: found.symbol(c"ibv_dereg_mr")?,
                create_comp_channel: found.symbol_of(c"ibv_create_comp_channel", c"IBVERBS_1.0")?,
                destroy_comp_channel: found.symbol_of(c"ibv_destroy_comp_channel", c"IBVERBS_1.0")?,
                create_cq: found.symbol(c"ibv_create_cq")?,
                destroy_cq: found.symbol(c"ibv_destroy_cq")?,
                get_cq_event: found.symbol(c"ibv_get_cq_event")?,
                ack_cq_events: found.symbol(c"ibv_ack_cq_events")?,
                create_qp: found.symbol(c"ibv_create_qp")?,
                modify_qp: found.symbol(c"ibv_modify_qp")?,
                destroy_qp: found.symbol(c"ibv_destroy_qp")?,
            })
        }
    }
}

/// A library that is loaded for good.
struct Loaded {
    name: String,
    handle: *mut c_void,
}

impl Loaded {
    fn open(library: &OsStr) -> Result<Self, LoadError> {
        let name = library.to_string_lossy().into_owned();
        let file = CString::new(library.as_bytes()).map_err(|_| LoadError::Missing(format!("{name:?} has a zero byte")))?;
        // SAFETY: the name is a C string. Loading runs the library's initialisers, which is what loading libibverbs is for.
        let handle = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() { Err(LoadError::Missing(last_error(&name))) } else { Ok(Self { name, handle }) }
    }

    /// # Safety
    /// `T` is a function pointer with the type of that function.
    unsafe fn symbol<T: Copy>(&self, symbol: &CStr) -> Result<T, LoadError> {
        // SAFETY: as the caller says.
        unsafe { self.symbol_of(symbol, VERSION) }
    }

    /// # Safety
    /// `T` is a function pointer with the type of that function in that version.
    unsafe fn symbol_of<T: Copy>(&self, symbol: &CStr, version: &CStr) -> Result<T, LoadError> {
        const { assert!(size_of::<T>() == size_of::<*mut c_void>()) };
        // SAFETY: the handle is of a library that stays loaded, and both names are C strings.
        let address: *mut c_void = unsafe { libc::dlvsym(self.handle, symbol.as_ptr(), version.as_ptr()) };
        if address.is_null() {
            return Err(LoadError::Symbol { library: self.name.clone(), symbol: symbol.to_string_lossy().into_owned() });
        }
        // SAFETY: the address is not null, a function pointer has its size (asserted), and the caller vouches for the type.
        Ok(unsafe { transmute_copy::<*mut c_void, T>(&address) })
    }
}

/// What the loader says of its last failure, which names the file.
fn last_error(name: &str) -> String {
    // SAFETY: the text stays until the next call of the loader in this thread; it is copied before.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return format!("{name}: cannot be loaded");
    }
    // SAFETY: not null, and a C string (dlerror(3)).
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_missing_is_named() {
        let error = Library::load("/nowhere/libibverbs.so.1".as_ref()).unwrap_err();
        let line = error.to_string();
        assert!(matches!(error, LoadError::Missing(_)), "{line}");
        assert!(line.starts_with("library missing: ") && line.contains("/nowhere/libibverbs.so.1"), "{line}");
    }

    #[test]
    fn another_library_is_none() {
        let error = Library::load("libc.so.6".as_ref()).unwrap_err();
        assert!(matches!(&error, LoadError::Symbol { symbol, .. } if symbol == "ibv_get_device_list"), "{error}");
    }
}
