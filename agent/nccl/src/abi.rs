//! What NCCL hands to a profiler plugin, versions 1 to 6, on a 64-bit Linux.
//!
//! Written from the layouts of NCCL's public headers (`profiler_v1.h` to `profiler_v6.h`, NCCL 2.23 to 2.30). Only fields that the plugin
//! reads are in the middle of a structure by name; what stands behind them counts for the size alone.

use std::{
    ffi::{c_char, c_int, c_void},
    mem::{offset_of, size_of},
};

use gate::mix;

/// `ncclSuccess`: the only result that this plugin has.
pub const SUCCESS: c_int = 0;
/// A collective.
pub const COLLECTIVE: u64 = 1 << 1;
/// A send or a receive.
pub const POINT_TO_POINT: u64 = 1 << 2;
/// An operation of the network, on one channel in one direction.
pub const OPERATION: u64 = 1 << 3;
/// Calls that the job makes together; a single one is a group too. From version 5.
pub const GROUP_CALL: u64 = 1 << 8;
/// A collective, when the job calls it and before anything of it is enqueued. From version 5.
pub const COLLECTIVE_CALL: u64 = 1 << 9;
/// A kernel is launched into a stream, in the thread that does it. From version 5; asked for where calls are held.
pub const LAUNCH: u64 = 1 << 11;
/// The events that the plugin asks for. Parents of these, such as groups and calls, come too.
pub const ACTIVATION: c_int = (COLLECTIVE | POINT_TO_POINT | OPERATION) as c_int;

/// Longest name of a function or a data type that is looked at; those of NCCL have a dozen letters.
const NAME_MAX: usize = 32;

/// A collective, version 1: names are small numbers.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CollectiveV1 {
    name: *const c_char,
    communicator: u64,
    sequence: u64,
    function: u8,
    buffers: [*const c_void; 2],
    count: usize,
    root: c_int,
    datatype: u8,
    operator: u32,
    traffic: usize,
    channels: u8,
    warps: u8,
    algorithm: u8,
    protocol: u8,
    flags: [c_int; 2],
}

/// A collective, versions 2 and 3; the second has no `traffic`, which is behind all that is read.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CollectiveV2<const REST: usize> {
    name: *const c_char,
    communicator: u64,
    sequence: u64,
    function: *const c_char,
    buffers: [*const c_void; 2],
    count: usize,
    root: c_int,
    datatype: *const c_char,
    rest: [u64; REST],
}

/// A collective, versions 4 and later; from version 5 on with the group that it is of behind all that is read.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CollectiveV4<const REST: usize> {
    sequence: u64,
    function: *const c_char,
    buffers: [*const c_void; 2],
    count: usize,
    root: c_int,
    datatype: *const c_char,
    rest: [u64; REST],
}

/// A send or a receive, version 1.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PointToPointV1 {
    name: *const c_char,
    communicator: u64,
    function: u8,
    buffer: *const c_void,
    datatype: u8,
    count: usize,
    peer: c_int,
}

/// A send or a receive, versions 2 and 3.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PointToPointV2 {
    name: *const c_char,
    communicator: u64,
    function: *const c_char,
    buffer: *const c_void,
    datatype: *const c_char,
    count: usize,
    peer: c_int,
}

/// A send or a receive, versions 4 and later.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PointToPointV4<const REST: usize> {
    function: *const c_char,
    buffer: *const c_void,
    datatype: *const c_char,
    count: usize,
    peer: c_int,
    channels: u8,
    rest: [u64; REST],
}

/// A collective when it is called, versions 5 and later.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CollectiveCallV5 {
    function: *const c_char,
    count: usize,
    datatype: *const c_char,
    root: c_int,
    stream: *mut c_void,
    /// A `bool`: not 0 where the call is recorded for a graph.
    is_captured: u8,
}

/// A launch, versions 5 and later.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LaunchV5 {
    stream: *mut c_void,
}

/// What an event is about; which of them its type says.
#[derive(Clone, Copy)]
#[repr(C)]
pub union Body<C: Copy, P: Copy> {
    collective: C,
    point_to_point: P,
    call: CollectiveCallV5,
    launch: LaunchV5,
}

impl<C: Copy, P: Copy> std::fmt::Debug for Body<C, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Body")
    }
}

/// An event: `T` is the type of its type.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Descriptor<T: Copy, C: Copy, P: Copy> {
    kind: T,
    parent: *const c_void,
    rank: c_int,
    body: Body<C, P>,
}

/// Version 1.
pub type DescriptorV1 = Descriptor<u8, CollectiveV1, PointToPointV1>;
/// Version 2.
pub type DescriptorV2 = Descriptor<u8, CollectiveV2<4>, PointToPointV2>;
/// Version 3.
pub type DescriptorV3 = Descriptor<u8, CollectiveV2<3>, PointToPointV2>;
/// Version 4.
pub type DescriptorV4 = Descriptor<u8, CollectiveV4<3>, PointToPointV4<0>>;
/// Version 5. Version 6 has copy-engine events besides, which are not asked for, and the same size.
pub type DescriptorV5 = Descriptor<u64, CollectiveV4<4>, PointToPointV4<1>>;

const _: () = {
    assert!(size_of::<DescriptorV1>() == 120 && size_of::<DescriptorV2>() == 128 && size_of::<DescriptorV3>() == 120);
    assert!(size_of::<DescriptorV4>() == 104 && size_of::<DescriptorV5>() == 112);
    assert!(offset_of!(DescriptorV1, parent) == 8 && offset_of!(DescriptorV1, rank) == 16 && offset_of!(DescriptorV1, body) == 24);
    assert!(offset_of!(DescriptorV5, parent) == 8 && offset_of!(DescriptorV5, rank) == 16 && offset_of!(DescriptorV5, body) == 24);
    // Counted from the beginning of the body, which is at 24.
    assert!(offset_of!(CollectiveV1, function) == 24 && offset_of!(CollectiveV1, count) == 48);
    assert!(offset_of!(CollectiveV1, root) == 56 && offset_of!(CollectiveV1, datatype) == 60);
    assert!(offset_of!(CollectiveV1, traffic) == 72 && offset_of!(CollectiveV1, flags) == 84);
    assert!(offset_of!(CollectiveV2<4>, function) == 24 && offset_of!(CollectiveV2<4>, count) == 48);
    assert!(offset_of!(CollectiveV2<4>, root) == 56 && offset_of!(CollectiveV2<4>, datatype) == 64);
    assert!(offset_of!(CollectiveV4<3>, function) == 8 && offset_of!(CollectiveV4<3>, count) == 32);
    assert!(offset_of!(CollectiveV4<3>, root) == 40 && offset_of!(CollectiveV4<3>, datatype) == 48);
    assert!(size_of::<CollectiveV1>() == 96 && size_of::<CollectiveV4<4>>() == 88);
    assert!(offset_of!(CollectiveCallV5, count) == 8 && offset_of!(CollectiveCallV5, datatype) == 16);
    assert!(offset_of!(CollectiveCallV5, root) == 24 && offset_of!(CollectiveCallV5, stream) == 32);
    assert!(offset_of!(CollectiveCallV5, is_captured) == 40 && size_of::<CollectiveCallV5>() == 48);
    assert!(offset_of!(PointToPointV1, function) == 16 && offset_of!(PointToPointV1, datatype) == 32);
    assert!(offset_of!(PointToPointV2, count) == 40 && offset_of!(PointToPointV2, peer) == 48);
    assert!(offset_of!(PointToPointV4<1>, count) == 24 && offset_of!(PointToPointV4<1>, peer) == 32);
};

/// The table of functions of one version; `I` is how it begins, and `D` what its events look like.
#[derive(Debug)]
#[repr(C)]
pub struct Profiler<I, D> {
    /// Shown in the log of NCCL.
    pub name: &'static [c_char; 10],
    /// A communicator begins.
    pub init: I,
    /// An event begins.
    pub start_event: unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *const D) -> c_int,
    /// An event ends.
    pub stop_event: extern "C" fn(*mut c_void) -> c_int,
    /// Something about an event changes.
    pub record_event_state: extern "C" fn(*mut c_void, c_int, *const c_void) -> c_int,
    /// A communicator ends.
    pub finalize: extern "C" fn(*mut c_void) -> c_int,
}

/// How versions 1 to 3 begin.
pub type InitV1 = unsafe extern "C" fn(*mut *mut c_void, *mut c_int) -> c_int;
/// How version 4 begins.
pub type InitV4 = unsafe extern "C" fn(*mut *mut c_void, *mut c_int, *const c_char, u64, c_int, c_int, c_int, *const c_void) -> c_int;
/// How versions 5 and 6 begin.
pub type InitV5 = unsafe extern "C" fn(*mut *mut c_void, u64, *mut c_int, *const c_char, c_int, c_int, c_int, *const c_void) -> c_int;

const _: () = assert!(size_of::<Profiler<InitV1, DescriptorV1>>() == 48 && size_of::<Profiler<InitV5, DescriptorV5>>() == 48);

/// What a job called, as far as it tells one call from another. The same call of another communicator is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    function: u64,
    datatype: u64,
    count: u64,
    /// The root, or the other side.
    rank: c_int,
    communicator: u64,
}

impl Call {
    /// A number of this call, whose upper bits are the better ones.
    #[inline]
    pub(crate) const fn hash(&self, context: u64) -> u64 {
        let mut hash = mix(0x6e63_636c, context);
        hash = mix(hash, self.communicator);
        hash = mix(hash, self.function);
        hash = mix(hash, self.datatype);
        hash = mix(hash, self.count);
        // The sign is part of the number.
        mix(hash, self.rank as u64)
    }
}

/// A number of a name; 0 for none.
///
/// # Safety
/// `name` is null or points to a string that ends in a zero byte.
#[inline]
unsafe fn name(name: *const c_char) -> u64 {
    let mut hash = 0;
    for at in 0..NAME_MAX {
        // SAFETY: not null, and no byte before this one was the zero at the end.
        if name.is_null() || unsafe { *name.add(at) } == 0 {
            break;
        }
        // SAFETY: as above.
        hash = mix(hash, 1 + u64::from(unsafe { *name.add(at) }.cast_unsigned()));
    }
    hash
}

/// A collective that is called and not yet enqueued.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calling {
    pub(crate) call: Call,
    pub(crate) stream: *mut c_void,
    pub(crate) is_captured: bool,
}

/// An event of any version.
pub(crate) trait Event {
    /// One bit: [`COLLECTIVE`], [`POINT_TO_POINT`], [`OPERATION`] or another.
    fn kind(&self) -> u64;

    /// What was called; `None` for any other event.
    ///
    /// # Safety
    /// The event is as NCCL makes it: the body is the one that the kind says, and its names are null or end in zero bytes.
    unsafe fn call(&self) -> Option<Call>;

    /// The collective that is being called; `None` for any other event.
    ///
    /// # Safety
    /// As [`Self::call`].
    unsafe fn calling(&self) -> Option<Calling>;

    /// The stream into which a kernel is launched; `None` for any other event.
    fn launches(&self) -> Option<*mut c_void>;
}

/// A body that says what was called.
pub(crate) trait Called: Copy {
    /// # Safety
    /// Names are null or end in zero bytes.
    unsafe fn call(&self) -> Call;
}

impl<T: Copy + Into<u64>, C: Called, P: Called> Event for Descriptor<T, C, P> {
    #[inline]
    fn kind(&self) -> u64 {
        self.kind.into()
    }

    #[inline]
    unsafe fn call(&self) -> Option<Call> {
        match self.kind() {
            // SAFETY: the kind says which body it is, and the caller promises the names.
            COLLECTIVE => Some(unsafe { self.body.collective.call() }),
            // SAFETY: as above.
            POINT_TO_POINT => Some(unsafe { self.body.point_to_point.call() }),
            _ => None,
        }
    }

    #[inline]
    unsafe fn calling(&self) -> Option<Calling> {
        if self.kind() != COLLECTIVE_CALL {
            return None;
        }
        // SAFETY: the kind, which has no such number before version 5, says which body it is, and the caller promises the names.
        let (body, function, datatype) = unsafe { (self.body.call, name(self.body.call.function), name(self.body.call.datatype)) };
        let call = Call { function, datatype, count: body.count as u64, rank: body.root, communicator: 0 };
        Some(Calling { call, stream: body.stream, is_captured: body.is_captured != 0 })
    }

    #[inline]
    fn launches(&self) -> Option<*mut c_void> {
        if self.kind() != LAUNCH {
            return None;
        }
        // SAFETY: the kind says which body it is, and any bits are a pointer.
        Some(unsafe { self.body.launch.stream })
    }
}

impl Called for CollectiveV1 {
    #[inline]
    unsafe fn call(&self) -> Call {
        let (function, datatype) = (u64::from(self.function), u64::from(self.datatype));
        Call { function, datatype, count: self.count as u64, rank: self.root, communicator: self.communicator }
    }
}

impl Called for PointToPointV1 {
    #[inline]
    unsafe fn call(&self) -> Call {
        let (function, datatype) = (u64::from(self.function), u64::from(self.datatype));
        Call { function, datatype, count: self.count as u64, rank: self.peer, communicator: self.communicator }
    }
}

impl<const REST: usize> Called for CollectiveV2<REST> {
    #[inline]
    unsafe fn call(&self) -> Call {
        // SAFETY: the caller's promise, for both.
        let (function, datatype) = unsafe { (name(self.function), name(self.datatype)) };
        Call { function, datatype, count: self.count as u64, rank: self.root, communicator: self.communicator }
    }
}

impl Called for PointToPointV2 {
    #[inline]
    unsafe fn call(&self) -> Call {
        // SAFETY: the caller's promise, for both.
        let (function, datatype) = unsafe { (name(self.function), name(self.datatype)) };
        Call { function, datatype, count: self.count as u64, rank: self.peer, communicator: self.communicator }
    }
}

impl<const REST: usize> Called for CollectiveV4<REST> {
    #[inline]
    unsafe fn call(&self) -> Call {
        // SAFETY: the caller's promise, for both.
        let (function, datatype) = unsafe { (name(self.function), name(self.datatype)) };
        Call { function, datatype, count: self.count as u64, rank: self.root, communicator: 0 }
    }
}

impl<const REST: usize> Called for PointToPointV4<REST> {
    #[inline]
    unsafe fn call(&self) -> Call {
        // SAFETY: the caller's promise, for both.
        let (function, datatype) = unsafe { (name(self.function), name(self.datatype)) };
        Call { function, datatype, count: self.count as u64, rank: self.peer, communicator: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_differ_in_anything_differ() {
        let call = Call { function: 1, datatype: 2, count: 3, rank: 4, communicator: 5 };
        let others = [
            Call { function: 2, ..call },
            Call { datatype: 1, ..call },
            Call { count: 4, ..call },
            Call { rank: -4, ..call },
            Call { communicator: 6, ..call },
            Call { function: 2, datatype: 1, ..call },
        ];
        let hash = call.hash(9) >> 8;
        assert!(others.iter().all(|other| other.hash(9) >> 8 != hash) && call.hash(8) >> 8 != hash);
        assert_eq!(call.hash(9) >> 8, hash);
    }

    #[test]
    fn names_are_read_to_their_end_and_no_further_than_the_limit() {
        // SAFETY: null, and strings that end in zero bytes.
        unsafe {
            assert_eq!((name(std::ptr::null()), name(c"".as_ptr())), (0, 0));
            assert_ne!(name(c"AllReduce".as_ptr()), name(c"AllReducf".as_ptr()));
            assert_ne!(name(c"AllReduce".as_ptr()), name(c"AllReduc".as_ptr()));
        }
        // No zero byte within the limit, and nothing behind it.
        let long = [c_char::MAX; NAME_MAX];
        // SAFETY: exactly as many bytes as are looked at.
        assert_ne!(unsafe { name(long.as_ptr()) }, 0);
    }
}
