//! The functions of the CUDA driver that a wait in a stream needs (CUDA Driver API: stream memory operations, memory management).
//!
//! The driver is that which the job has loaded already: a process without one has no stream.

use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    mem::transmute_copy,
};

/// A stream of the job: `CUstream`.
pub type Stream = *mut c_void;
/// What the driver calls when a stream has come to it: `CUhostFn`. It must not call the driver.
pub type HostFunction = unsafe extern "C" fn(*mut c_void);

/// The name by which every job loads the driver.
const NAME: &CStr = c"libcuda.so.1";
/// `CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP`: seen by the GPUs of all contexts.
const REGISTER_FLAGS: c_uint = 0x1 | 0x2;
/// `CU_STREAM_WAIT_VALUE_GEQ`: until `(int32_t)(*address - value) >= 0`, so numbers may wrap.
const WAIT_UNTIL_REACHED: c_uint = 0;
/// `CU_STREAM_CAPTURE_STATUS_NONE`.
const NOT_CAPTURING: c_int = 0;

/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
const RELAXED: c_int = 2;

/// The number by which the driver says what went wrong: `CUresult`, not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaError(pub i32);

fn checked(result: c_int) -> Result<(), CudaError> {
    if result == 0 { Ok(()) } else { Err(CudaError(result)) }
}

/// The driver of this process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Driver {
    register: unsafe extern "C" fn(*mut c_void, usize, c_uint) -> c_int,
    device_pointer: unsafe extern "C" fn(*mut u64, *mut c_void, c_uint) -> c_int,
    wait: unsafe extern "C" fn(Stream, u64, u32, c_uint) -> c_int,
    call: unsafe extern "C" fn(Stream, HostFunction, *mut c_void) -> c_int,
    capturing: unsafe extern "C" fn(Stream, *mut c_int) -> c_int,
    capture_mode: unsafe extern "C" fn(*mut c_int) -> c_int,
}

impl Driver {
    /// `None` where this process has loaded no driver, or one without these functions (before CUDA 11.7).
    pub(super) fn of_this_process() -> Option<Self> {
        // SAFETY: the name is a C string. `RTLD_NOLOAD` loads nothing, so no initialiser runs; the handle keeps the driver loaded.
        let handle = unsafe { libc::dlopen(NAME.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
        if handle.is_null() {
            return None;
        }
        // SAFETY: each type is that of the function of this name in the driver's interface (cuda.h).
        unsafe {
            Some(Self {
                register: symbol(handle, c"cuMemHostRegister_v2")?,
                device_pointer: symbol(handle, c"cuMemHostGetDevicePointer_v2")?,
                wait: symbol(handle, c"cuStreamWaitValue32_v2")?,
                call: symbol(handle, c"cuLaunchHostFunc")?,
                capturing: symbol(handle, c"cuStreamIsCapturing")?,
                capture_mode: symbol(handle, c"cuThreadExchangeStreamCaptureMode")?,
            })
        }
    }

    /// Lets GPUs see memory of this process. A graph that another thread records is not disturbed, as it would be by default.
    ///
    /// # Safety
    /// The memory is never given back.
    pub(super) unsafe fn register(&self, memory: *mut c_void, bytes: usize) -> Result<(), CudaError> {
        let mut mode = RELAXED;
        // SAFETY: `mode` may be written; the mode is this thread's alone.
        checked(unsafe { (self.capture_mode)(&raw mut mode) })?;
        // SAFETY: the memory is ours, of that size, and stays (the caller's promise).
        let registered = checked(unsafe { (self.register)(memory, bytes, REGISTER_FLAGS) });
        // SAFETY: as above, with the mode that this thread had.
        checked(unsafe { (self.capture_mode)(&raw mut mode) })?;
        registered
    }

    /// Enqueues a wait until the number at `word`, which was registered, has reached `number`.
    ///
    /// # Safety
    /// `stream` is a stream of this thread's context, or null for its default one.
    pub(super) unsafe fn wait(&self, stream: Stream, word: *mut c_void, number: u32) -> Result<(), CudaError> {
        let mut address = 0;
        // SAFETY: `address` may be written; the driver answers an error for memory that it does not know.
        checked(unsafe { (self.device_pointer)(&raw mut address, word, 0) })?;
        // SAFETY: the caller's promise of the stream; the address is the driver's own.
        checked(unsafe { (self.wait)(stream, address, number, WAIT_UNTIL_REACHED) })
    }

    /// Enqueues a call in a thread of the driver; what the stream does next waits for its return.
    ///
    /// # Safety
    /// As [`Self::wait`]; and `function` may be called with `with` at any time from now on.
    pub(super) unsafe fn call(&self, stream: Stream, function: HostFunction, with: *mut c_void) -> Result<(), CudaError> {
        // SAFETY: the caller's promises.
        checked(unsafe { (self.call)(stream, function, with) })
    }

    /// Whether the stream's work is recorded for a graph, and not done.
    ///
    /// # Safety
    /// As [`Self::wait`].
    pub(super) unsafe fn is_capturing(&self, stream: Stream) -> Result<bool, CudaError> {
        let mut status = NOT_CAPTURING;
        // SAFETY: `status` may be written, and the caller's promise of the stream.
        checked(unsafe { (self.capturing)(stream, &raw mut status) })?;
        Ok(status != NOT_CAPTURING)
    }
}

/// # Safety
/// `T` is a function pointer with the type of that function, and the library stays loaded.
unsafe fn symbol<T: Copy>(handle: *mut c_void, name: &CStr) -> Option<T> {
    const { assert!(size_of::<T>() == size_of::<*mut c_void>()) };
    let name: *const c_char = name.as_ptr();
    // SAFETY: the handle is of a loaded library, and the name is a C string.
    let address: *mut c_void = unsafe { libc::dlsym(handle, name) };
    // SAFETY: the address is not null, a function pointer has its size (asserted), and the caller vouches for the type.
    (!address.is_null()).then(|| unsafe { transmute_copy::<*mut c_void, T>(&address) })
}
