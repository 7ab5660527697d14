//! Devices and what they say of themselves.

use std::{
    ffi::{CStr, OsStr},
    fmt, io,
    os::fd::RawFd,
    path::Path,
    ptr::NonNull,
};

use crate::{
    abi::{self, AsyncEvent, DeviceAttributes, PortAttributes},
    library::{Library, LoadError},
    sysfs,
};

/// Why a device cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerbsError {
    /// There is no library.
    #[error(transparent)]
    Library(#[from] LoadError),
    /// The library finds no InfiniBand class in this kernel.
    #[error("no kernel support: {source}; load ib_uverbs and the driver of the NIC (modprobe)")]
    NoKernelSupport {
        /// What the library says.
        source: io::Error,
    },
    /// The kernel has the class, and nothing in it that the library can use.
    #[error("no device: {}", NoDevice(.in_kernel))]
    NoDevice {
        /// Devices that the kernel has nevertheless.
        in_kernel: Vec<String>,
    },
    /// No device has this name.
    #[error("device {name:?} is not here; there are {}", .present.join(", "))]
    NotFound {
        /// The name that was asked for.
        name: String,
        /// Those that are here.
        present: Vec<String>,
    },
    /// The device is here and cannot carry this traffic.
    #[error("{device}: {because}")]
    Unusable {
        /// The device.
        device: String,
        /// Why not.
        because: String,
    },
    /// A message did not arrive.
    #[error("{device}: {status} (vendor's number {vendor})")]
    Failed {
        /// The device.
        device: String,
        /// What its completion says.
        status: String,
        /// What the driver says besides.
        vendor: u32,
    },
    /// Messages are under way and none completes.
    #[error("{device}: no message completed for {seconds} s")]
    Silent {
        /// The device.
        device: String,
        /// For how long nothing came.
        seconds: u64,
    },
    /// A call failed.
    #[error("{device}: {call}: {source}")]
    Call {
        /// The device.
        device: String,
        /// The function of libibverbs.
        call: &'static str,
        /// Its error.
        source: io::Error,
    },
}

struct NoDevice<'a>(&'a [String]);

impl fmt::Display for NoDevice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => write!(f, "the kernel has no RDMA device"),
            some => {
                let names = some.join(", ");
                write!(f, "the kernel has {names}, and the library no driver for it; install ibverbs-providers or the vendor's")
            }
        }
    }
}

/// The library, loaded.
#[derive(Clone, Copy, Debug)]
pub struct Verbs {
    pub(crate) library: Library,
}

impl Verbs {
    /// Loads the library from a file, or by a name that the system's loader finds ([`crate::library::NAME`]).
    ///
    /// # Errors
    /// [`LoadError`]
    pub fn load(library: &OsStr) -> Result<Self, LoadError> {
        Ok(Self { library: Library::load(library)? })
    }

    /// The devices of this host, at least one.
    ///
    /// # Errors
    /// [`VerbsError::NoKernelSupport`], [`VerbsError::NoDevice`], or [`VerbsError::Call`] where the list cannot be made.
    pub fn devices(&self, sys: &Path) -> Result<Devices, VerbsError> {
        let mut count = 0;
        // SAFETY: the function writes one number and returns a list of that length, or null.
        let list = unsafe { (self.library.get_device_list)(&raw mut count) };
        let Some(list) = NonNull::new(list) else {
            let source = io::Error::last_os_error();
            return Err(match source.raw_os_error() {
                // ENOSYS: no such class; EOPNOTSUPP: no /sys at all.
                Some(libc::ENOSYS | libc::EOPNOTSUPP) => VerbsError::NoKernelSupport { source },
                _ => VerbsError::Call { device: "all devices".into(), call: "ibv_get_device_list", source },
            });
        };
        // Made first, so that an empty list is freed too.
        let devices = Devices { library: self.library, list, count: usize::try_from(count).unwrap_or(0) };
        if devices.count == 0 { Err(VerbsError::NoDevice { in_kernel: sysfs::devices(sys) }) } else { Ok(devices) }
    }
}

/// A list of devices.
#[derive(Debug)]
pub struct Devices {
    library: Library,
    list: NonNull<*mut abi::Device>,
    count: usize,
}

impl Devices {
    fn raw(&self) -> &[*mut abi::Device] {
        // SAFETY: the library made a list of `count` pointers, which stays until it is freed in `drop`.
        unsafe { std::slice::from_raw_parts(self.list.as_ptr(), self.count) }
    }

    fn name(&self, device: *mut abi::Device) -> String {
        // SAFETY: the pointer is of the list, and the device has a name that lives as long.
        unsafe { CStr::from_ptr((self.library.get_device_name)(device)) }.to_string_lossy().into_owned()
    }

    /// Their names, in the order of the library.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.raw().iter().map(|&device| self.name(device)).collect()
    }

    /// Opens a device.
    ///
    /// # Errors
    /// [`VerbsError::NotFound`], or [`VerbsError::Call`], often for want of the right to open `/dev/infiniband/uverbsN`.
    pub fn open(&self, name: &str) -> Result<Context, VerbsError> {
        let found = self.raw().iter().find(|&&device| self.name(device) == name);
        let Some(&device) = found else { return Err(VerbsError::NotFound { name: name.into(), present: self.names() }) };
        // SAFETY: the pointer is of the list.
        let context = NonNull::new(unsafe { (self.library.open_device)(device) });
        let context = context.ok_or_else(|| failed(name, "ibv_open_device", io::Error::last_os_error()))?;
        Ok(Context { library: self.library, raw: context, name: name.into() })
    }
}

impl Drop for Devices {
    fn drop(&mut self) {
        // SAFETY: the list is the library's and is freed once; devices that are open stay.
        unsafe { (self.library.free_device_list)(self.list.as_ptr()) }
    }
}

/// A device that is open.
#[derive(Debug)]
pub struct Context {
    pub(crate) library: Library,
    pub(crate) raw: NonNull<abi::Context>,
    name: String,
}

impl Context {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// An error of a function of this device.
    pub(crate) fn failed(&self, call: &'static str, source: io::Error) -> VerbsError {
        failed(&self.name, call, source)
    }

    /// What a function that returns 0 or an error number did.
    pub(crate) fn check(&self, call: &'static str, code: i32) -> Result<(), VerbsError> {
        match code {
            0 => Ok(()),
            // Some functions return -1 and set errno.
            ..0 => Err(self.failed(call, io::Error::last_os_error())),
            errno => Err(self.failed(call, io::Error::from_raw_os_error(errno))),
        }
    }

    /// What the device is.
    ///
    /// # Errors
    /// [`VerbsError::Call`]
    pub fn attributes(&self) -> Result<DeviceAttributes, VerbsError> {
        let mut attributes = DeviceAttributes::default();
        // SAFETY: the context is open, and the structure is as large as the library's.
        self.check("ibv_query_device", unsafe { (self.library.query_device)(self.raw.as_ptr(), &raw mut attributes) })?;
        Ok(attributes)
    }

    /// What a port is now; ports have numbers from 1.
    ///
    /// # Errors
    /// [`VerbsError::Call`], also for a port that the device does not have.
    pub fn port(&self, port: u8) -> Result<PortAttributes, VerbsError> {
        let mut attributes = PortAttributes::default();
        // SAFETY: as in `attributes`; the function fills the structure, or the shorter one of older libraries at its beginning.
        self.check("ibv_query_port", unsafe { (self.library.query_port)(self.raw.as_ptr(), port, &raw mut attributes) })?;
        Ok(attributes)
    }

    /// Readable while an asynchronous event waits.
    #[must_use]
    pub fn async_fd(&self) -> RawFd {
        // SAFETY: the context is open, and the library changes this field only when it is closed.
        unsafe { (*self.raw.as_ptr()).async_fd }
    }

    /// Takes one asynchronous event; waits for one where none is there.
    ///
    /// # Errors
    /// [`VerbsError::Call`]
    pub fn async_event(&self) -> Result<AsyncEvent, VerbsError> {
        let mut event = AsyncEvent::default();
        // SAFETY: the context is open, and the structure is the library's.
        self.check("ibv_get_async_event", unsafe { (self.library.get_async_event)(self.raw.as_ptr(), &raw mut event) })?;
        let mut taken = event;
        // SAFETY: the event was taken just now and is acknowledged once. Its objects, if it names one, are still there.
        unsafe { (self.library.ack_async_event)(&raw mut taken) };
        Ok(event)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the context is open and closed once; what was made on it holds it (`crate::queue`).
        unsafe { (self.library.close_device)(self.raw.as_ptr()) };
    }
}

fn failed(device: &str, call: &'static str, source: io::Error) -> VerbsError {
    VerbsError::Call { device: device.into(), call, source }
}
