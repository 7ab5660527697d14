//! The parts of libibverbs that this crate uses: layouts and numbers of its C interface, version `IBVERBS_1.1`, on 64-bit Linux.
//!
//! Written from the layouts of `infiniband/verbs.h` (rdma-core 44), which have been frozen since `IBVERBS_1.1`. Sizes and offsets are
//! asserted below when this is compiled, and `tests/layout.rs` compares them with the header of the machine. Structures of which only
//! the beginning is read (`Context`, `Queue`, `Region`) end where reading ends: the library makes them, and nobody copies them.

use std::{
    ffi::{c_char, c_int, c_uint, c_void},
    mem::{offset_of, size_of},
};

/// `IBV_QPT_RC`.
pub const RELIABLE_CONNECTION: u32 = 2;
/// `IBV_QPS_INIT`.
pub const STATE_INIT: u32 = 1;
/// `IBV_QPS_RTR`: ready to receive.
pub const STATE_RECEIVES: u32 = 2;
/// `IBV_QPS_RTS`: ready to send.
pub const STATE_SENDS: u32 = 3;
/// `IBV_QP_STATE`, `_PKEY_INDEX`, `_PORT` and `_ACCESS_FLAGS`: what a queue pair needs to be initialised.
pub const MASK_INIT: c_int = 1 | 1 << 4 | 1 << 5 | 1 << 3;
/// `IBV_QP_STATE`, `_AV`, `_PATH_MTU`, `_DEST_QPN`, `_RQ_PSN`, `_MAX_DEST_RD_ATOMIC` and `_MIN_RNR_TIMER`: to receive.
pub const MASK_RECEIVES: c_int = 1 | 1 << 7 | 1 << 8 | 1 << 20 | 1 << 12 | 1 << 17 | 1 << 15;
/// `IBV_QP_STATE`, `_SQ_PSN`, `_TIMEOUT`, `_RETRY_CNT`, `_RNR_RETRY` and `_MAX_QP_RD_ATOMIC`: to send.
pub const MASK_SENDS: c_int = 1 | 1 << 16 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 13;
/// `IBV_ACCESS_LOCAL_WRITE`.
pub const ACCESS_LOCAL_WRITE: c_int = 1;
/// `IBV_ACCESS_REMOTE_WRITE`.
pub const ACCESS_REMOTE_WRITE: c_int = 1 << 1;
/// `IBV_WR_RDMA_WRITE`.
pub const OPCODE_WRITE: u32 = 0;
/// `IBV_SEND_SIGNALED`: the request has a completion.
pub const SIGNALED: c_uint = 1 << 1;
/// `IBV_LINK_LAYER_INFINIBAND`.
pub const LINK_LAYER_INFINIBAND: u8 = 1;
/// `IBV_LINK_LAYER_ETHERNET`.
pub const LINK_LAYER_ETHERNET: u8 = 2;

/// A device of the list. Its fields are asked for by functions.
#[derive(Debug)]
#[repr(C)]
pub struct Device {
    pub(crate) opaque: [u8; 0],
}

/// Functions that the C header calls without a symbol, by their place in the table.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ContextOps {
    pub(crate) before_poll: [*const c_void; 11],
    /// `ibv_poll_cq`.
    pub poll: Option<unsafe extern "C" fn(*mut CompletionQueue, c_int, *mut Completion) -> c_int>,
    /// `ibv_req_notify_cq`.
    pub notify: Option<unsafe extern "C" fn(*mut CompletionQueue, c_int) -> c_int>,
    pub(crate) before_send: [*const c_void; 12],
    /// `ibv_post_send`.
    pub send: Option<unsafe extern "C" fn(*mut QueuePair, *mut SendRequest, *mut *mut SendRequest) -> c_int>,
    pub(crate) after_send: [*const c_void; 6],
}

/// An open device: `ibv_context`, as far as it is read.
#[derive(Debug)]
#[repr(C)]
pub struct Context {
    pub(crate) device: *mut Device,
    /// The functions of its driver.
    pub ops: ContextOps,
    pub(crate) command_fd: c_int,
    /// Readable while an asynchronous event waits.
    pub async_fd: c_int,
}

/// `ibv_pd`, never read.
#[derive(Debug)]
#[repr(C)]
pub struct Domain {
    pub(crate) opaque: [u8; 0],
}

/// `ibv_comp_channel`.
#[derive(Debug)]
#[repr(C)]
pub struct Channel {
    pub(crate) context: *mut Context,
    /// Readable while a completion that was asked for waits.
    pub fd: c_int,
    pub(crate) references: c_int,
}

/// `ibv_cq`, never read.
#[derive(Debug)]
#[repr(C)]
pub struct CompletionQueue {
    pub(crate) opaque: [u8; 0],
}

/// `ibv_qp`, as far as it is read.
#[derive(Debug)]
#[repr(C)]
pub struct QueuePair {
    pub(crate) before_number: [*const c_void; 6],
    pub(crate) handle: u32,
    /// Its number on the wire, 24 bits.
    pub number: u32,
}

/// `ibv_mr`: registered memory.
#[derive(Debug)]
#[repr(C)]
pub struct Region {
    pub(crate) before_keys: [*const c_void; 4],
    pub(crate) handle: u32,
    /// The key for requests of this side.
    pub local_key: u32,
    /// The key for requests of the other side.
    pub remote_key: u32,
}

/// `ibv_device_attr`, of which the name of the firmware and the number of ports are read.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DeviceAttributes {
    /// Text, ended by a zero where it is shorter.
    pub firmware: [c_char; 64],
    /// Big-endian.
    pub node_guid: u64,
    pub(crate) between: [u64; 19],
    pub(crate) keys: u16,
    pub(crate) acknowledge_delay: u8,
    /// Ports have the numbers from 1 to this.
    pub ports: u8,
}

/// `ibv_port_attr`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct PortAttributes {
    /// `ibv_port_state`.
    pub state: u32,
    /// `ibv_mtu`: the largest that the port can have.
    pub max_mtu: u32,
    /// `ibv_mtu`: that of now.
    pub active_mtu: u32,
    /// Places for GIDs.
    pub gids: c_int,
    pub(crate) capabilities: u32,
    pub(crate) max_message: u32,
    pub(crate) counters: [u32; 2],
    pub(crate) keys_and_lids: [u16; 3],
    pub(crate) subnet: [u8; 5],
    pub(crate) active_width: u8,
    pub(crate) active_speed: u8,
    /// Physical state: 5 is link-up.
    pub physical_state: u8,
    /// [`LINK_LAYER_INFINIBAND`] or [`LINK_LAYER_ETHERNET`].
    pub link_layer: u8,
    pub(crate) flags: u8,
    pub(crate) capabilities_2: u16,
}

/// `ibv_async_event`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct AsyncEvent {
    /// The number of a port, in its lower half, or an object of whoever asks.
    pub element: u64,
    /// `ibv_event_type`.
    pub kind: u32,
}

/// `ibv_qp_cap`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct QueueCapacity {
    /// Sends that may wait.
    pub sends: u32,
    /// Receives that may wait.
    pub receives: u32,
    /// Pieces of one send.
    pub send_pieces: u32,
    /// Pieces of one receive.
    pub receive_pieces: u32,
    pub(crate) inline: u32,
}

/// `ibv_qp_init_attr`.
#[derive(Debug)]
#[repr(C)]
pub struct QueueOptions {
    /// Whatever the caller likes.
    pub context: *mut c_void,
    /// Completions of sends.
    pub send_queue: *mut CompletionQueue,
    /// Completions of receives.
    pub receive_queue: *mut CompletionQueue,
    /// A receive queue that several share.
    pub shared: *mut c_void,
    /// Sizes.
    pub capacity: QueueCapacity,
    /// [`RELIABLE_CONNECTION`].
    pub kind: u32,
    /// Whether each send has a completion.
    pub signal_all: c_int,
}

/// `ibv_ah_attr` with the global route in it: where packets go.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(8))]
pub struct AddressVector {
    /// GID of the other end.
    pub gid: [u8; 16],
    /// 20 bits; 0 lets the driver choose the UDP source port.
    pub flow_label: u32,
    /// Index of the GID of this end.
    pub source_gid: u8,
    /// TTL.
    pub hops: u8,
    /// DSCP and ECN bits.
    pub traffic_class: u8,
    pub(crate) padding: u8,
    pub(crate) lid: u16,
    pub(crate) service_level: u8,
    pub(crate) source_path: u8,
    pub(crate) rate: u8,
    /// 1: the global route counts.
    pub is_global: u8,
    /// Port of the device.
    pub port: u8,
}

/// `ibv_qp_attr`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct QueueState {
    /// `ibv_qp_state`.
    pub state: u32,
    pub(crate) current: u32,
    /// `ibv_mtu`.
    pub mtu: u32,
    pub(crate) migration: u32,
    pub(crate) key: u32,
    /// First number of packets that come.
    pub receive_psn: u32,
    /// First number of packets that go.
    pub send_psn: u32,
    /// The other end's queue pair.
    pub peer: u32,
    /// What the other end may do with registered memory.
    pub access: c_uint,
    pub(crate) capacity: QueueCapacity,
    /// The way there.
    pub vector: AddressVector,
    pub(crate) alternate: AddressVector,
    pub(crate) key_index: u16,
    pub(crate) alternate_key_index: u16,
    pub(crate) drain: [u8; 2],
    /// Reads under way, of this end.
    pub reads: u8,
    /// Reads under way, of the other end.
    pub peer_reads: u8,
    /// How long the other end is to wait when this end has no receive: a code.
    pub receiver_timer: u8,
    /// Port of the device.
    pub port: u8,
    /// Acknowledgements take at most 4.096 us times 2 to the power of this.
    pub timeout: u8,
    /// Repeats before it gives up.
    pub retries: u8,
    /// Repeats for want of a receive before it gives up.
    pub receiver_retries: u8,
    pub(crate) alternate_path: [u8; 2],
    pub(crate) rate_limit: u32,
}

/// `ibv_sge`: a piece of registered memory.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Piece {
    /// Where it begins.
    pub address: u64,
    /// Bytes.
    pub length: u32,
    /// [`Region::local_key`].
    pub key: u32,
}

/// `ibv_send_wr`, for a write to memory of the other end.
#[derive(Debug)]
#[repr(C)]
pub struct SendRequest {
    /// Comes back in the completion.
    pub id: u64,
    /// The next one of a list.
    pub next: *mut SendRequest,
    /// What to send.
    pub pieces: *mut Piece,
    /// How many pieces.
    pub count: c_int,
    /// [`OPCODE_WRITE`].
    pub opcode: u32,
    /// [`SIGNALED`].
    pub flags: c_uint,
    pub(crate) immediate: u32,
    /// Where to, in the other end's memory.
    pub remote_address: u64,
    /// [`Region::remote_key`] of the other end.
    pub remote_key: u32,
    pub(crate) rest: [u64; 9],
}

/// `ibv_wc`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Completion {
    /// That of the request.
    pub id: u64,
    /// `ibv_wc_status`; 0 is success.
    pub status: u32,
    pub(crate) opcode: u32,
    /// What the driver says of an error.
    pub vendor_error: u32,
    pub(crate) rest: [u32; 7],
}

const _: () = {
    assert!(size_of::<ContextOps>() == 256 && offset_of!(Context, async_fd) == 268);
    assert!(offset_of!(Channel, fd) == 8 && offset_of!(QueuePair, number) == 52 && offset_of!(Region, local_key) == 36);
    assert!(size_of::<DeviceAttributes>() == 232 && offset_of!(DeviceAttributes, ports) == 227);
    assert!(size_of::<PortAttributes>() == 52 && offset_of!(PortAttributes, link_layer) == 46);
    assert!(size_of::<AsyncEvent>() == 16 && size_of::<QueueCapacity>() == 20 && size_of::<QueueOptions>() == 64);
    assert!(size_of::<AddressVector>() == 32 && size_of::<QueueState>() == 144 && size_of::<Piece>() == 16);
    assert!(size_of::<SendRequest>() == 128 && size_of::<Completion>() == 48);
};

impl Default for SendRequest {
    fn default() -> Self {
        Self {
            id: 0,
            next: std::ptr::null_mut(),
            pieces: std::ptr::null_mut(),
            count: 0,
            opcode: OPCODE_WRITE,
            flags: SIGNALED,
            immediate: 0,
            remote_address: 0,
            remote_key: 0,
            rest: [0; 9],
        }
    }
}

impl Default for DeviceAttributes {
    fn default() -> Self {
        Self { firmware: [0; 64], node_guid: 0, between: [0; 19], keys: 0, acknowledge_delay: 0, ports: 0 }
    }
}
