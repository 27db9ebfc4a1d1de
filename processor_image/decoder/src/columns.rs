//! Where messages go to: counted first, so that memory of exactly that size can be made, and then written to it.

#![forbid(unsafe_code)]

use std::mem::take;
use std::slice::{ChunksExactMut, IterMut};
use std::str::from_utf8;

/// Columns of texts or binaries: six that have one for each message, and the names and the values of each map.
pub const OFFSET: usize = 0;
pub const KEY: usize = 1;
pub const BODY: usize = 2;
pub const CONTENT_TYPE: usize = 3;
pub const MESSAGE_ID: usize = 4;
pub const CORRELATION_ID: usize = 5;
const NAMES: [usize; MAPS] = [6, 8];
const VALUES: [usize; MAPS] = [7, 9];
const TEXTS: usize = 10;

/// Columns of one map for each message.
pub const PROPERTIES: usize = 0;
pub const SYSTEM: usize = 1;
const MAPS: usize = 2;

const REGIONS: usize = 3 + 3 * TEXTS + 2 * MAPS;
const ALIGNMENT: usize = 64; // of each region, as Arrow advises
const OVERHEAD: usize = 64; // bytes that an event counts for in addition to its content

/// Receives the parts of a message; None if a part is not supported.
pub trait Sink<'a> {
    /// A map begins.
    fn names(&mut self) {}
    /// One of its names.
    fn name(&mut self, _name: &'a [u8]) -> Option<()> {
        Some(())
    }
    /// The value of a column; null if there is none.
    fn text(&mut self, column: usize, value: Option<&[u8]>) -> Option<()>;
    /// An entry of a map.
    fn entry(&mut self, map: usize, name: &[u8], value: &[u8], kind: u8) -> Option<()>;
    /// The message is whole.
    fn end(&mut self, number: i64, time: i64) -> Option<()>;
}

/// How much is in messages: of each column its values, which of them are null, and the bytes of the others.
#[derive(Clone, Copy, Default)]
struct Counts {
    messages: usize,
    values: [usize; TEXTS],
    nulls: [usize; TEXTS],
    bytes: [usize; TEXTS],
}

/// The memory that messages need: regions that follow each other, each padded to 64 bytes. These are sequence numbers,
/// times and sizes; for each column of texts its bitmap (nothing where none is null), ends and data; for each of maps its
/// ends and the kinds of the values.
#[repr(C)]
pub struct Sizes {
    messages: usize,
    total: usize,
    values: [usize; TEXTS],
    nulls: [usize; TEXTS],
    regions: [usize; REGIONS],
}

/// Counts messages, and does the checks that are needed only once.
#[derive(Default)]
pub struct Counter<'a> {
    whole: Counts,
    so_far: Counts, // with the message that is being taken
    names: Vec<&'a [u8]>,
}

impl<'a> Counter<'a> {
    /// Discard the parts of an incomplete message.
    pub fn forget(&mut self) {
        self.so_far = self.whole;
    }

    /// The memory that the messages need; None if a column exceeds Arrow's maximum.
    pub fn sizes(&self) -> Option<Sizes> {
        let Counts { messages, values, nulls, bytes } = self.whole;
        i32::try_from(*values.iter().chain(&bytes).max()?).ok()?;
        let mut regions = vec![8 * messages; 3];
        for column in 0..TEXTS {
            let bitmap = if nulls[column] > 0 { (values[column] + 7) / 8 } else { 0 };
            regions.extend([bitmap, 4 * (values[column] + 1), bytes[column]]);
        }
        for column in VALUES {
            regions.extend([4 * (messages + 1), values[column]]);
        }
        let total = regions.iter().map(|size| (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT).sum();
        Some(Sizes { messages, total, values, nulls, regions: regions.try_into().ok()? })
    }
}

impl<'a> Sink<'a> for Counter<'a> {
    fn names(&mut self) {
        self.names.clear();
    }

    fn name(&mut self, name: &'a [u8]) -> Option<()> {
        if self.names.contains(&name) {
            return None;
        }
        self.names.push(name);
        Some(())
    }

    fn text(&mut self, column: usize, value: Option<&[u8]>) -> Option<()> {
        self.so_far.values[column] += 1;
        match value {
            None => self.so_far.nulls[column] += 1,
            Some(value) => {
                if column != BODY {
                    from_utf8(value).ok()?;
                }
                self.so_far.bytes[column] += value.len();
            }
        }
        Some(())
    }

    fn entry(&mut self, map: usize, name: &[u8], value: &[u8], _kind: u8) -> Option<()> {
        self.text(NAMES[map], Some(name))?;
        self.text(VALUES[map], Some(value))
    }

    fn end(&mut self, _number: i64, _time: i64) -> Option<()> {
        self.so_far.messages += 1;
        self.whole = self.so_far;
        Some(())
    }
}

/// A column of texts that is being written.
struct Texts<'m> {
    bitmap: &'m mut [u8],
    ends: ChunksExactMut<'m, u8>,
    data: &'m mut [u8],
    count: usize,
    end: usize,
}

impl Texts<'_> {
    #[inline]
    fn push(&mut self, value: Option<&[u8]>) -> Option<()> {
        if let (Some(byte), Some(_)) = (self.bitmap.get_mut(self.count / 8), value) {
            *byte |= 1 << (self.count % 8);
        }
        let value = value.unwrap_or_default();
        let end = self.end + value.len();
        self.data.get_mut(self.end..end)?.copy_from_slice(value);
        self.end = end;
        self.count += 1;
        put(&mut self.ends, &(end as i32).to_ne_bytes())
    }
}

/// A column of maps that is being written, besides the names and the values.
struct Map<'m> {
    ends: ChunksExactMut<'m, u8>,
    kinds: IterMut<'m, u8>,
}

/// The ends of values, the first of which starts at 0.
fn ends(region: &mut [u8]) -> Option<ChunksExactMut<'_, u8>> {
    let mut ends = region.chunks_exact_mut(4);
    put(&mut ends, &[0; 4])?;
    Some(ends)
}

#[inline]
fn put(column: &mut ChunksExactMut<u8>, value: &[u8]) -> Option<()> {
    column.next()?.copy_from_slice(value);
    Some(())
}

/// Writes messages to memory of the measured size; None if there are more than were measured.
pub struct Writer<'m> {
    numbers: ChunksExactMut<'m, u8>,
    times: ChunksExactMut<'m, u8>,
    sizes: ChunksExactMut<'m, u8>,
    texts: Vec<Texts<'m>>,
    maps: Vec<Map<'m>>,
    size: usize, // of the message so far
}

impl<'m> Writer<'m> {
    /// None if the memory is smaller than measured.
    pub fn new(sizes: &Sizes, mut memory: &'m mut [u8]) -> Option<Self> {
        let mut regions = sizes.regions.iter().map(|&size| {
            let padded = size.checked_add(ALIGNMENT - 1)? / ALIGNMENT * ALIGNMENT;
            memory.get(..padded)?;
            let (region, rest) = take(&mut memory).split_at_mut(padded);
            memory = rest;
            Some(&mut region[..size])
        });
        let mut next = || regions.next()?;
        let mut numbers = Vec::with_capacity(3);
        for _ in 0..3 {
            numbers.push(next()?.chunks_exact_mut(8));
        }
        let mut texts = Vec::with_capacity(TEXTS);
        for _ in 0..TEXTS {
            let (bitmap, ends, data) = (next()?, ends(next()?)?, next()?);
            bitmap.fill(0);
            texts.push(Texts { bitmap, ends, data, count: 0, end: 0 });
        }
        let mut maps = Vec::with_capacity(MAPS);
        for _ in 0..MAPS {
            maps.push(Map { ends: ends(next()?)?, kinds: next()?.iter_mut() });
        }
        let (sizes, times, numbers) = (numbers.pop()?, numbers.pop()?, numbers.pop()?);
        Some(Writer { numbers, times, sizes, texts, maps, size: OVERHEAD })
    }

    /// Whether every region was filled to its end.
    pub fn is_full(&self) -> bool {
        self.numbers.len() + self.times.len() + self.sizes.len() == 0
            && self.texts.iter().all(|texts| texts.ends.len() == 0 && texts.end == texts.data.len())
            && self.maps.iter().all(|map| map.ends.len() + map.kinds.len() == 0)
    }
}

impl<'a> Sink<'a> for Writer<'_> {
    #[inline]
    fn text(&mut self, column: usize, value: Option<&[u8]>) -> Option<()> {
        if column == BODY || column == KEY {
            self.size += value.map_or(0, <[u8]>::len);
        }
        self.texts[column].push(value)
    }

    #[inline]
    fn entry(&mut self, map: usize, name: &[u8], value: &[u8], kind: u8) -> Option<()> {
        self.texts[NAMES[map]].push(Some(name))?;
        self.texts[VALUES[map]].push(Some(value))?;
        *self.maps[map].kinds.next()? = kind;
        self.size += name.len() + value.len();
        Some(())
    }

    fn end(&mut self, number: i64, time: i64) -> Option<()> {
        put(&mut self.numbers, &number.to_ne_bytes())?;
        put(&mut self.times, &time.to_ne_bytes())?;
        put(&mut self.sizes, &(self.size as i64).to_ne_bytes())?;
        for (map, values) in self.maps.iter_mut().zip(VALUES) {
            put(&mut map.ends, &(self.texts[values].count as i32).to_ne_bytes())?;
        }
        self.size = OVERHEAD;
        Some(())
    }
}
