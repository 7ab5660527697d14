//! A reliable connection (RC) between two ends, each with a buffer that the other may write to.

use std::{
    ffi::c_int,
    io,
    net::Ipv6Addr,
    path::Path,
    ptr::{self, NonNull},
    time::{Duration, Instant},
};

use memmap2::{MmapMut, MmapRaw};
use serde::{Deserialize, Serialize};

use crate::{
    abi::{
        self, AddressVector, Channel, Completion, CompletionQueue, Domain, Piece, QueueCapacity, QueueOptions, QueuePair, QueueState,
        Region,
    },
    device::{Context, VerbsError},
    sysfs::{Gid, PortFolder, usual},
    wait,
};

/// Largest message, and so largest buffer: NCCL's are 512 KiB, and a server gives a buffer to each who asks.
pub const MESSAGE_BYTES_MAX: u32 = 16 << 20;
/// Most messages under way: what every NIC has room for.
pub const DEPTH_MAX: u32 = 1 << 10;
/// Acknowledgements take at most 4.096 us times 2^17, half a second: Soft-RoCE behind a queue of some milliseconds sends again too early
/// with the usual 67 ms, and the copies fill the queue.
const ACKNOWLEDGED_WITHIN: u8 = 17;
/// Most repeats before a connection fails: the largest number that the field holds.
const RETRIES: u8 = 7;
/// 0.64 ms, should a receive ever be missing; a write needs none.
const RECEIVER_TIMER: u8 = 12;
/// As other IP traffic.
const HOPS: u8 = 64;
/// Numbers of packets have 24 bits.
const PSN_MASK: u64 = (1 << 24) - 1;
/// Completions that are taken at once.
const TAKEN_AT_ONCE: usize = 16;

/// What one end tells the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Address {
    /// Number of its queue pair.
    pub queue_pair: u32,
    /// Number of its first packet.
    pub psn: u32,
    /// Where its packets come from.
    pub gid: Ipv6Addr,
    /// `ibv_mtu` that its port has now.
    pub mtu: u32,
    /// Where its buffer begins.
    pub buffer: u64,
    /// Length of the buffer, in bytes.
    pub length: u32,
    /// The key of its buffer.
    pub key: u32,
}

/// What an end is made of.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Port of the device, from 1.
    pub port: u8,
    /// Index of the GID; `None` takes [`usual`].
    pub gid: Option<u8>,
    /// Bytes of a message, and of the buffer: 1 to [`MESSAGE_BYTES_MAX`].
    pub message: u32,
    /// Messages that may be under way: 1 to [`DEPTH_MAX`].
    pub depth: u32,
    /// The kernel's tree.
    pub sys: &'a Path,
}

/// An object of the library, destroyed when it is dropped.
#[derive(Debug)]
struct Owned<T> {
    raw: NonNull<T>,
    destroy: unsafe extern "C" fn(*mut T) -> c_int,
}

impl<T> Owned<T> {
    /// Takes what a function of the library made; null says that it failed.
    ///
    /// # Safety
    /// `raw` was made just now, nobody else destroys it, and `destroy` is the function for it.
    unsafe fn new(
        context: &Context,
        call: &'static str,
        raw: *mut T,
        destroy: unsafe extern "C" fn(*mut T) -> c_int,
    ) -> Result<Self, VerbsError> {
        NonNull::new(raw).map(|raw| Self { raw, destroy }).ok_or_else(|| context.failed(call, io::Error::last_os_error()))
    }

    fn raw(&self) -> *mut T {
        self.raw.as_ptr()
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: the object is there until now, and whatever uses it stands before it in `Endpoint` and is dropped already.
        unsafe { (self.destroy)(self.raw.as_ptr()) };
    }
}

/// One end. The order of the fields is that in which they are dropped: what uses before what is used.
#[derive(Debug)]
pub struct Endpoint {
    pair: Owned<QueuePair>,
    queue: Owned<CompletionQueue>,
    channel: Owned<Channel>,
    region: Owned<Region>,
    _domain: Owned<Domain>,
    /// Never read or written here: the device does, whenever it likes.
    memory: MmapRaw,
    context: Context,
    port: u8,
    gid: Gid,
    mtu: u32,
    psn: u32,
    message: u32,
    depth: u32,
    under_way: u32,
    peer: Option<Address>,
}

impl Endpoint {
    /// Makes an end that is connected with nobody.
    ///
    /// # Errors
    /// A port that is down or no RoCE port, a GID that is not there, no memory (`ulimit -l`), or another failure of the library.
    pub fn open(context: Context, options: &Options<'_>) -> Result<Self, VerbsError> {
        let attributes = context.port(options.port)?;
        if attributes.link_layer == abi::LINK_LAYER_INFINIBAND {
            return Err(VerbsError::Unusable {
                device: context.name().into(),
                because: "its link layer is InfiniBand, and traffic is for RoCE".into(),
            });
        }
        let gids = PortFolder::new(options.sys, context.name(), options.port).gids(u16::try_from(attributes.gids).unwrap_or(0));
        let gid = match options.gid {
            Some(index) => gids.iter().find(|gid| gid.index == index),
            None => usual(&gids),
        };
        let Some(gid) = gid.cloned() else {
            let because = options.gid.map_or_else(|| "it has no GID".to_owned(), |index| format!("it has no GID {index}"));
            return Err(VerbsError::Unusable { device: context.name().into(), because });
        };
        let library = context.library;
        let message = options.message.clamp(1, MESSAGE_BYTES_MAX);
        let depth = options.depth.clamp(1, DEPTH_MAX);
        let memory = MmapMut::map_anon(message as usize).map_err(|error| context.failed("mmap", error))?;
        let memory = MmapRaw::from(memory);
        let access = abi::ACCESS_LOCAL_WRITE | abi::ACCESS_REMOTE_WRITE;
        // SAFETY: the context is open and outlives all of these (`Endpoint`), each object is used by the next ones only, the memory has
        // `message` bytes and is mapped as long, and the options are structures of ours for the time of the call.
        unsafe {
            let raw = context.raw.as_ptr();
            let domain = Owned::new(&context, "ibv_alloc_pd", (library.alloc_pd)(raw), library.dealloc_pd)?;
            let registered = (library.reg_mr)(domain.raw(), memory.as_mut_ptr().cast(), message as usize, access);
            let region = Owned::new(&context, "ibv_reg_mr", registered, library.dereg_mr)?;
            let channel =
                Owned::new(&context, "ibv_create_comp_channel", (library.create_comp_channel)(raw), library.destroy_comp_channel)?;
            // One place for each message, with its completion.
            let queue = (library.create_cq)(raw, depth as c_int, ptr::null_mut(), channel.raw(), 0);
            let queue = Owned::new(&context, "ibv_create_cq", queue, library.destroy_cq)?;
            let mut wanted = QueueOptions {
                context: ptr::null_mut(),
                send_queue: queue.raw(),
                receive_queue: queue.raw(),
                shared: ptr::null_mut(),
                capacity: QueueCapacity { sends: depth, receives: 1, send_pieces: 1, receive_pieces: 1, ..QueueCapacity::default() },
                kind: abi::RELIABLE_CONNECTION,
                signal_all: 1,
            };
            let pair = (library.create_qp)(domain.raw(), &raw mut wanted);
            let pair = Owned::new(&context, "ibv_create_qp", pair, library.destroy_qp)?;
            let psn = (gate::now().0 & PSN_MASK) as u32;
            let (port, mtu) = (options.port, attributes.active_mtu);
            Ok(Self {
                pair,
                queue,
                channel,
                region,
                _domain: domain,
                memory,
                context,
                port,
                gid,
                mtu,
                psn,
                message,
                depth,
                under_way: 0,
                peer: None,
            })
        }
    }

    /// What the other end has to know.
    #[must_use]
    pub fn address(&self) -> Address {
        // SAFETY: both objects are there, and the library does not change these fields.
        let (queue_pair, key) = unsafe { ((*self.pair.raw()).number, (*self.region.raw()).remote_key) };
        let buffer = self.memory.as_ptr() as u64;
        Address { queue_pair, psn: self.psn, gid: self.gid.gid, mtu: self.mtu, buffer, length: self.message, key }
    }

    /// The GID of this end.
    #[must_use]
    pub fn gid(&self) -> &Gid {
        &self.gid
    }

    /// Connects this end with another one; packets have this traffic class (DSCP and ECN bits: 2 is ECT(0)).
    ///
    /// # Errors
    /// [`VerbsError::Unusable`] for a buffer there that is shorter than a message, and [`VerbsError::Call`].
    pub fn connect(&mut self, peer: &Address, traffic_class: u8) -> Result<(), VerbsError> {
        if peer.length < self.message {
            let because = format!("the other end has a buffer of {} bytes, and a message has {}", peer.length, self.message);
            return Err(VerbsError::Unusable { device: self.context.name().into(), because });
        }
        let access = (abi::ACCESS_LOCAL_WRITE | abi::ACCESS_REMOTE_WRITE) as u32;
        let init = QueueState { state: abi::STATE_INIT, port: self.port, access, ..QueueState::default() };
        self.modify(init, abi::MASK_INIT)?;
        let vector = AddressVector {
            gid: peer.gid.octets(),
            source_gid: self.gid.index,
            hops: HOPS,
            traffic_class,
            is_global: 1,
            port: self.port,
            ..AddressVector::default()
        };
        let receives = QueueState {
            state: abi::STATE_RECEIVES,
            // The smaller one of both ends.
            mtu: self.mtu.min(peer.mtu),
            peer: peer.queue_pair,
            receive_psn: peer.psn,
            peer_reads: 1,
            receiver_timer: RECEIVER_TIMER,
            vector,
            ..QueueState::default()
        };
        self.modify(receives, abi::MASK_RECEIVES)?;
        let sends = QueueState {
            state: abi::STATE_SENDS,
            send_psn: self.psn,
            timeout: ACKNOWLEDGED_WITHIN,
            retries: RETRIES,
            receiver_retries: RETRIES,
            reads: 1,
            ..QueueState::default()
        };
        self.modify(sends, abi::MASK_SENDS)?;
        self.peer = Some(*peer);
        Ok(())
    }

    fn modify(&self, mut state: QueueState, mask: c_int) -> Result<(), VerbsError> {
        // SAFETY: the queue pair is there, and the structure is ours for the time of the call.
        self.context.check("ibv_modify_qp", unsafe { (self.context.library.modify_qp)(self.pair.raw(), &raw mut state, mask) })
    }

    /// Writes `bytes` of this buffer to that of the other end, in messages, and returns when all are acknowledged.
    ///
    /// # Errors
    /// [`VerbsError::Failed`] where the other end does not answer or refuses, [`VerbsError::Silent`] where nothing completes for `silence`.
    pub fn write(&mut self, bytes: u64, silence: Duration) -> Result<(), VerbsError> {
        let mut left = bytes;
        // Each round posts a message or takes a completion, and `silence` bounds the wait for one.
        while left > 0 || self.under_way > 0 {
            while left > 0 && self.under_way < self.depth {
                let length = u32::try_from(left).unwrap_or(u32::MAX).min(self.message);
                self.post(length)?;
                left -= u64::from(length);
            }
            self.take(silence)?;
        }
        Ok(())
    }

    fn post(&mut self, length: u32) -> Result<(), VerbsError> {
        let unconnected = || VerbsError::Unusable { device: self.context.name().into(), because: "it is connected with nobody".into() };
        let peer = self.peer.ok_or_else(unconnected)?;
        // SAFETY: the region is there; the key does not change.
        let key = unsafe { (*self.region.raw()).local_key };
        let mut piece = Piece { address: self.memory.as_ptr() as u64, length, key };
        let mut request = abi::SendRequest {
            pieces: &raw mut piece,
            count: 1,
            remote_address: peer.buffer,
            remote_key: peer.key,
            ..abi::SendRequest::default()
        };
        let mut refused = ptr::null_mut();
        // SAFETY: the context is open; the driver sets its functions before it hands the context out.
        let send = unsafe { (*self.context.raw.as_ptr()).ops.send };
        let send = send.ok_or_else(|| self.context.failed("ibv_post_send", io::ErrorKind::Unsupported.into()))?;
        // SAFETY: the queue pair is connected, the request and its piece are copied before the call returns, and the memory that they name
        // is registered and stays mapped.
        self.context.check("ibv_post_send", unsafe { send(self.pair.raw(), &raw mut request, &raw mut refused) })?;
        self.under_way += 1;
        Ok(())
    }

    /// Takes completions, at least one.
    fn take(&mut self, silence: Duration) -> Result<(), VerbsError> {
        let end = Instant::now() + silence;
        // Each round waits for an event of the queue, and `silence` bounds them all.
        loop {
            if self.poll()? > 0 {
                return Ok(());
            }
            // A completion between the look and the order of the event makes no event: hence the second look.
            self.order_event()?;
            if self.poll()? > 0 {
                return Ok(());
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(VerbsError::Silent { device: self.context.name().into(), seconds: silence.as_secs() });
            }
            // SAFETY: the channel is there; its descriptor does not change.
            let fd = unsafe { (*self.channel.raw()).fd };
            if !wait::readable(&[fd], Some(left)).map_err(|error| self.context.failed("poll", error))?.is_empty() {
                self.take_event()?;
            }
        }
    }

    fn poll(&mut self) -> Result<usize, VerbsError> {
        // SAFETY: as in `post`.
        let poll = unsafe { (*self.context.raw.as_ptr()).ops.poll };
        let poll = poll.ok_or_else(|| self.context.failed("ibv_poll_cq", io::ErrorKind::Unsupported.into()))?;
        let mut taken = [Completion::default(); TAKEN_AT_ONCE];
        // SAFETY: the queue is there, and the array has as many entries as are named.
        let count = unsafe { poll(self.queue.raw(), TAKEN_AT_ONCE as c_int, taken.as_mut_ptr()) };
        let count = usize::try_from(count).map_err(|_| self.context.failed("ibv_poll_cq", io::Error::other("the driver refuses")))?;
        for completion in &taken[..count.min(TAKEN_AT_ONCE)] {
            self.under_way = self.under_way.saturating_sub(1);
            if completion.status != 0 {
                let (device, vendor) = (self.context.name().into(), completion.vendor_error);
                return Err(VerbsError::Failed { device, status: status(completion.status), vendor });
            }
        }
        Ok(count)
    }

    fn order_event(&self) -> Result<(), VerbsError> {
        // SAFETY: as in `post`.
        let notify = unsafe { (*self.context.raw.as_ptr()).ops.notify };
        let notify = notify.ok_or_else(|| self.context.failed("ibv_req_notify_cq", io::ErrorKind::Unsupported.into()))?;
        // SAFETY: the queue is there.
        self.context.check("ibv_req_notify_cq", unsafe { notify(self.queue.raw(), 0) })
    }

    fn take_event(&self) -> Result<(), VerbsError> {
        let (mut queue, mut whose) = (ptr::null_mut(), ptr::null_mut());
        let library = self.context.library;
        // SAFETY: the channel is there, and its descriptor is readable, so the call does not wait.
        self.context.check("ibv_get_cq_event", unsafe { (library.get_cq_event)(self.channel.raw(), &raw mut queue, &raw mut whose) })?;
        // SAFETY: the event is of our only queue. It is acknowledged at once: destroying the queue would wait for it otherwise.
        unsafe { (library.ack_cq_events)(self.queue.raw(), 1) };
        Ok(())
    }
}

/// Names of `ibv_wc_status`, of those that a writer can meet.
fn status(code: u32) -> String {
    let name = match code {
        4 => "local protection error",
        5 => "flushed after an earlier error",
        9 => "the other end refuses the request",
        10 => "the other end refuses the access",
        11 => "the other end failed",
        12 => "no acknowledgement after all repeats: the other end is gone, or packets are lost",
        13 => "the other end had no receive after all repeats",
        _ => return format!("status {code}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_survives_the_way() {
        let gid = "::ffff:10.9.0.1".parse().unwrap();
        let address = Address { queue_pair: 17, psn: 3, gid, mtu: 3, buffer: u64::MAX, length: 65_536, key: 9 };
        let text = serde_json::to_string(&address).unwrap();
        assert!(text.contains("\"::ffff:10.9.0.1\""), "{text}");
        assert_eq!(serde_json::from_str::<Address>(&text).unwrap(), address);
        assert!(serde_json::from_str::<Address>(&text.replace("psn", "nsp")).is_err());
    }

    #[test]
    fn a_status_without_a_name_keeps_its_number() {
        assert_eq!(status(21), "status 21");
        assert!(status(12).contains("the other end is gone"));
    }
}
