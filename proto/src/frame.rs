//! Frames on QUIC streams: a length of four bytes, big-endian, then a message.
//!
//! Sans-IO: bytes in by [`Decoder::push`], messages out by [`Decoder::next`].

use prost::Message;

/// Largest frame. A plan of 4,096 slots of 200 bytes takes 0.8 MiB.
pub const FRAME_BYTES_MAX: usize = 1 << 20;
const LENGTH_BYTES: usize = 4;

/// Why a stream cannot be read further.
#[derive(Debug)]
#[non_exhaustive]
pub enum FrameError {
    /// Longer than the reader holds.
    TooLong {
        /// The announced length.
        bytes: usize,
        /// The reader's limit.
        bytes_max: usize,
    },
    /// Not a message of the expected kind.
    Malformed(prost::DecodeError),
}

impl core::fmt::Display for FrameError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::TooLong { bytes, bytes_max } => write!(f, "a frame of {bytes} bytes; at most {bytes_max} are read"),
            Self::Malformed(e) => write!(f, "a frame is malformed: {e}"),
        }
    }
}

impl std::error::Error for FrameError {}

/// A message as a frame.
///
/// # Errors
/// [`FrameError::TooLong`]: the receiver would refuse it.
pub fn encode<M: Message>(message: &M) -> Result<Vec<u8>, FrameError> {
    let bytes = message.encoded_len();
    if bytes > FRAME_BYTES_MAX {
        return Err(FrameError::TooLong { bytes, bytes_max: FRAME_BYTES_MAX });
    }
    let mut out = Vec::with_capacity(LENGTH_BYTES + bytes);
    out.extend_from_slice(&(bytes as u32).to_be_bytes());
    message.encode_raw(&mut out);
    Ok(out)
}

/// Takes a stream apart. Holds at most one frame and what was pushed last.
#[derive(Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    read: usize,
    bytes_max: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::with_limit(FRAME_BYTES_MAX)
    }
}

impl Decoder {
    /// For frames of at most `bytes_max`, or [`FRAME_BYTES_MAX`] if that is less.
    #[must_use]
    pub fn with_limit(bytes_max: usize) -> Self {
        Self { buffer: Vec::new(), read: 0, bytes_max: bytes_max.min(FRAME_BYTES_MAX) }
    }

    /// Adds what was received.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.read);
        self.read = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole message, if it is here.
    ///
    /// # Errors
    /// [`FrameError`]: nothing after it can be read.
    #[allow(clippy::should_implement_trait, reason = "it can fail, and each call says what it expects")]
    pub fn next<M: Message + Default>(&mut self) -> Result<Option<M>, FrameError> {
        let rest = &self.buffer[self.read..];
        let Some((length, rest)) = rest.split_first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let bytes = u32::from_be_bytes(*length) as usize;
        if bytes > self.bytes_max {
            return Err(FrameError::TooLong { bytes, bytes_max: self.bytes_max });
        }
        let Some(body) = rest.get(..bytes) else { return Ok(None) };
        let message = M::decode(body).map_err(FrameError::Malformed)?;
        self.read += LENGTH_BYTES + bytes;
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1alpha1::PlanAck;

    #[test]
    fn messages_survive_any_cut_of_the_stream() {
        let sent: Vec<PlanAck> = (0..20).map(|i| PlanAck { plan_version: 1 << (3 * i), written_ns: i }).collect();
        let stream: Vec<u8> = sent.iter().flat_map(|m| encode(m).unwrap()).collect();
        for cut in 1..stream.len() {
            let mut decoder = Decoder::default();
            let mut seen = Vec::new();
            for piece in stream.chunks(cut) {
                decoder.push(piece);
                while let Some(message) = decoder.next::<PlanAck>().unwrap() {
                    seen.push(message);
                }
            }
            assert_eq!(seen, sent);
        }
    }

    #[test]
    fn a_frame_that_would_not_fit_is_refused_before_it_is_held() {
        let mut decoder = Decoder::default();
        decoder.push(&u32::MAX.to_be_bytes());
        assert!(matches!(decoder.next::<PlanAck>(), Err(FrameError::TooLong { .. })));
        let mut narrow = Decoder::with_limit(7);
        narrow.push(&[0, 0, 0, 7]);
        assert!(narrow.next::<PlanAck>().unwrap().is_none());
        let mut narrow = Decoder::with_limit(7);
        narrow.push(&[0, 0, 0, 8]);
        assert!(matches!(narrow.next::<PlanAck>(), Err(FrameError::TooLong { bytes: 8, bytes_max: 7 })));
    }
}
