//! Changes of inputs: what a decoder has to survive that was handed something near to what it knows.

/// Marsaglia, "Xorshift RNGs", 2003.
pub(crate) struct Random(u64);

impl Random {
    /// The same for the same decoder, on every machine.
    pub(crate) fn of(decoder: &str) -> Self {
        // FNV-1a; no state of zero, from which nothing comes.
        Self(decoder.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// Numbers at which something begins or ends.
const NUMBERS: [u64; 12] = [0, 1, 127, 255, 65_535, 1 << 31, u32::MAX as u64, 1 << 53, i64::MAX as u64, 1 << 63, u64::MAX - 1, u64::MAX];
/// What stands between the parts of texts.
const PARTS: [&str; 16] = ["{", "}", "[", "]", ":", ",", "\"", "\n", " ", "- ", "null", "-1", "1e400", "&a ", "*a", "\u{0}"];

/// One of the pool, changed in one to eight places.
pub(crate) fn changed(random: &mut Random, pool: &[Vec<u8>], bytes_max: usize) -> Vec<u8> {
    let mut input = pool[random.below(pool.len())].clone();
    for _ in 0..1 + random.below(8) {
        change(random, &mut input, pool);
    }
    input.truncate(bytes_max);
    input
}

fn change(random: &mut Random, input: &mut Vec<u8>, pool: &[Vec<u8>]) {
    let at = random.below(input.len());
    let until = (at + 1 + random.below(16)).min(input.len());
    match random.below(10) {
        0 if !input.is_empty() => input[at] ^= 1 << random.below(8),
        1 if !input.is_empty() => input[at] = random.next() as u8,
        2 => drop(input.drain(at.min(until)..until)),
        3 => {
            let piece = input[at.min(until)..until].to_vec();
            drop(input.splice(at..at, piece));
        }
        4 => input.truncate(at),
        5 => {
            let other = &pool[random.below(pool.len())];
            let from = random.below(other.len());
            input.truncate(at);
            input.extend_from_slice(&other[from.min(other.len())..]);
        }
        6 if at + 8 <= input.len() => input[at..at + 8].copy_from_slice(&number(random).to_le_bytes()),
        7 => {
            let text = number(random).to_string();
            drop(input.splice(at..at, text.into_bytes()));
        }
        8 => drop(input.splice(at..at, PARTS[random.below(PARTS.len())].bytes())),
        // Another number where one is.
        _ => {
            let Some(first) = input[at..].iter().position(u8::is_ascii_digit).map(|found| at + found) else { return };
            let digits = input[first..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            let text = number(random).to_string();
            drop(input.splice(first..first + digits, text.into_bytes()));
        }
    }
}

fn number(random: &mut Random) -> u64 {
    if random.below(2) == 0 { NUMBERS[random.below(NUMBERS.len())] } else { random.next() >> random.below(64) }
}
