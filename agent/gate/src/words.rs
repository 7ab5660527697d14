//! A page of shared memory as atomic words.

use std::{fmt, fs::File, io, slice, sync::atomic::AtomicU64};

use memmap2::{MmapOptions, MmapRaw};

#[cfg(target_endian = "big")]
compile_error!("the page is little-endian and is read as it is; no host with GPUs is anything else");

/// Size of both files. One page of memory on every platform that we build for.
pub(crate) const FILE_BYTES: usize = 4096;
/// Words in it.
pub(crate) const FILE_WORDS: usize = FILE_BYTES / 8;

/// A mapped page. The mapping outlives the file's name.
pub(crate) struct Words {
    map: MmapRaw,
}

impl fmt::Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Words").field(&self.map.as_ptr()).finish()
    }
}

impl Words {
    /// Maps a file of [`FILE_BYTES`] for reading. A store to it is a fault.
    pub(crate) fn read_only(file: &File) -> io::Result<Self> {
        Ok(Self { map: MmapOptions::new().len(FILE_BYTES).map_raw_read_only(file)? })
    }

    /// Maps a file of [`FILE_BYTES`] for reading and writing.
    pub(crate) fn writable(file: &File) -> io::Result<Self> {
        Ok(Self { map: MmapOptions::new().len(FILE_BYTES).map_raw(file)? })
    }

    /// Maps the first `bytes` of a file that has as many and cannot shrink, for reading and writing.
    pub(crate) fn writable_of(file: &File, bytes: usize) -> io::Result<Self> {
        Ok(Self { map: MmapOptions::new().len(bytes).map_raw(file)? })
    }

    /// All words of the mapping, however long it is.
    #[inline]
    pub(crate) fn slice(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has that many bytes, is aligned to a page and lives as long as `self`. Every process accesses it as
        // atomic words or reads copies of it, and whoever made the file sealed its size.
        unsafe { slice::from_raw_parts(self.map.as_ptr().cast::<AtomicU64>(), self.map.len() / 8) }
    }

    #[inline]
    pub(crate) fn all(&self) -> &[AtomicU64; FILE_WORDS] {
        let first = self.map.as_ptr().cast::<AtomicU64>();
        // SAFETY: the mapping has FILE_BYTES bytes, is aligned to a page and lives as long as `self`. Every process accesses
        // it as atomic words only, so there are no data races; on a read-only mapping all loads are relaxed (see
        // seqlock.rs), which is defined. The file does not shrink under it: docs/schedule-page.md, "No fault".
        let words = unsafe { slice::from_raw_parts(first, FILE_WORDS) };
        words.try_into().expect("invariant: the slice has FILE_WORDS words")
    }
}
