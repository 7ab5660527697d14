//! What a disk makes of sectors: a power cut that loses some of what was written, and rot. Draws come from the caller's seed.

/// What a disk writes whole: a sector of the older size, which is the harder case.
pub(crate) const SECTOR: usize = 512;

/// What a machine could find of a file after the power went: of each sector the durable bytes or those that were written since.
pub(crate) fn after_power_cut(durable: &[u8], written: &[u8], below: &mut impl FnMut(usize) -> usize) -> Vec<u8> {
    // Of sixteen sectors: few, half, all but some, all.
    let share = [1, 8, 15, 16][below(4)];
    // The length is of the file system's journal, and may be the old one.
    let length = if below(4) == 0 { durable.len() } else { written.len().max(durable.len()) };
    let mut found = durable.to_vec();
    found.resize(length, 0);
    for at in (0..length.min(written.len())).step_by(SECTOR) {
        let end = (at + SECTOR).min(length).min(written.len());
        if below(16) < share {
            found[at..end].copy_from_slice(&written[at..end]);
        }
    }
    found
}

/// Lets a sector that holds something rot: it reads as zeroes, as noise, or with one bit flipped. Returns its number.
pub(crate) fn rot(bytes: &mut [u8], below: &mut impl FnMut(usize) -> usize) -> usize {
    let used: Vec<usize> = (0..bytes.len() / SECTOR).filter(|n| bytes[n * SECTOR..][..SECTOR].iter().any(|byte| *byte != 0)).collect();
    let sector = used[below(used.len())];
    let bytes = &mut bytes[sector * SECTOR..][..SECTOR];
    match below(3) {
        0 => bytes.fill(0),
        1 => bytes.iter_mut().for_each(|byte| *byte = below(256) as u8),
        _ => bytes[below(SECTOR)] ^= 1 << below(8),
    }
    sector
}
