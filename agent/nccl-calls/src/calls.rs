//! The functions that stand before NCCL's.
//!
//! Types are those of NCCL's public header, which has not changed them since 2.7: enums are `int`, communicators and streams pointers,
//! which are passed on and never followed.

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    mem::transmute,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::NonNull,
    sync::OnceLock,
};

use gate::{Config, Teller, mix};

use crate::next::{self, Next};

/// `ncclSystemError`: the answer where the loader finds no NCCL behind us. Such a program has none, and asked only whether there is.
const SYSTEM_ERROR: c_int = 2;
/// Where the hash of a call begins.
const SEED: u64 = 0x6e63_636c;

/// A name that communicators are made of (`ncclUniqueId`), passed by value.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct UniqueId([c_char; 128]);

/// One ring for all communicators of the process, made with the first of them.
static TELLER: OnceLock<Option<Teller>> = OnceLock::new();

/// A communicator is made: the place for whatever may take time.
#[cold]
fn prepare() {
    let _ = catch_unwind(|| {
        let teller = TELLER.get_or_init(|| Teller::new(&Config::from_env().ok()?));
        if let Some(teller) = teller {
            teller.greet(gate::now());
        }
        next::find(ALL);
    });
}

/// The job called the function of this number; `rank` is the root, the other side or the operator.
#[inline]
fn called(function: u64, count: usize, datatype: c_int, rank: c_int, of: Communicator) {
    // One load; while another thread makes the first communicator there is none.
    let Some(Some(teller)) = TELLER.get() else { return };
    // The sign is part of the number, and a communicator of its address.
    let words = [count as u64, datatype as u64, rank as u64, of.addr() as u64];
    let what = words.into_iter().fold(mix(SEED, function), mix);
    let _ = catch_unwind(AssertUnwindSafe(|| teller.called(what)));
}

/// Functions that tell what was called, if it is one that communicates, and go on to NCCL's own. `C-unwind`, so that whatever a release
/// does behind us, it does as without us.
macro_rules! stands_before {
    ($($(#[$about:meta])* $name:ident as $next:ident ($($argument:ident: $type:ty),*) => $act:expr;)*) => {$(
        static $next: Next = Next::new(match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => c"",
        });

        $(#[$about])*
        ///
        /// # Safety
        /// As NCCL asks.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "the name is NCCL's")]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> c_int {
            $act;
            let Some(next) = $next.get() else { return SYSTEM_ERROR };
            // SAFETY: the address is that of NCCL's function of this name, which has this type.
            let next = unsafe { transmute::<NonNull<c_void>, unsafe extern "C-unwind" fn($($type),*) -> c_int>(next) };
            // SAFETY: the arguments are the caller's, as they came.
            unsafe { next($($argument),*) }
        }
    )*

        /// All of them, to be looked for at once.
        static ALL: &[&Next] = &[$(&$next),*];
    };
}

type In = *const c_void;
type Out = *mut c_void;
type Communicator = *mut c_void;
type Stream = *mut c_void;

stands_before! {
    /// A communicator of many processes.
    ncclCommInitRank as INIT_RANK (to: *mut Communicator, ranks: c_int, id: UniqueId, rank: c_int) => prepare();
    /// The same with a configuration; NCCL 2.14 and later.
    ncclCommInitRankConfig as INIT_RANK_CONFIG (to: *mut Communicator, ranks: c_int, id: UniqueId, rank: c_int, config: *mut c_void) =>
        prepare();
    /// The communicators of one process.
    ncclCommInitAll as INIT_ALL (to: *mut Communicator, devices: c_int, list: *const c_int) => prepare();
    /// Everybody's sum, or the like, at everybody.
    ncclAllReduce as ALL_REDUCE (send: In, receive: Out, count: usize, datatype: c_int, operator: c_int, of: Communicator, stream: Stream) =>
        called(1, count, datatype, operator, of);
    /// Everybody's sum, cut to pieces.
    ncclReduceScatter as REDUCE_SCATTER (
        send: In, receive: Out, count: usize, datatype: c_int, operator: c_int, of: Communicator, stream: Stream
    ) => called(2, count, datatype, operator, of);
    /// Everybody's piece at everybody.
    ncclAllGather as ALL_GATHER (send: In, receive: Out, count: usize, datatype: c_int, of: Communicator, stream: Stream) =>
        called(3, count, datatype, 0, of);
    /// One's data at everybody.
    ncclBroadcast as BROADCAST (send: In, receive: Out, count: usize, datatype: c_int, root: c_int, of: Communicator, stream: Stream) =>
        called(4, count, datatype, root, of);
    /// The same in place, as NCCL 1 had it.
    ncclBcast as BCAST (buffer: Out, count: usize, datatype: c_int, root: c_int, of: Communicator, stream: Stream) =>
        called(5, count, datatype, root, of);
    /// Everybody's sum at one.
    ncclReduce as REDUCE (
        send: In, receive: Out, count: usize, datatype: c_int, operator: c_int, root: c_int, of: Communicator, stream: Stream
    ) => called(6, count, datatype, root, of);
    /// To one.
    ncclSend as SEND (send: In, count: usize, datatype: c_int, peer: c_int, of: Communicator, stream: Stream) =>
        called(7, count, datatype, peer, of);
    /// From one.
    ncclRecv as RECV (receive: Out, count: usize, datatype: c_int, peer: c_int, of: Communicator, stream: Stream) =>
        called(8, count, datatype, peer, of);
}
