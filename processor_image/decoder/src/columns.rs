//! Where messages go to: counted first, so that memory of exactly that size can be made, and then written to it.

#![forbid(unsafe_code)]

use std::mem::take;
use std::slice::{ChunksExactMut, IterMut};
use std::str::from_utf8;

/// Columns of one text or binary for each message.
pub const OFFSET: usize = 0;
pub const KEY: usize = 1;
pub const BODY: usize = 2;
pub const CONTENT_TYPE: usize = 3;
pub const MESSAGE_ID: usize = 4;
pub const CORRELATION_ID: usize = 5;
pub const TEXTS: usize = 6;

/// Columns of one map for each message.
pub const PROPERTIES: usize = 0;
pub const SYSTEM: usize = 1;
pub const MAPS: usize = 2;

const REGIONS: usize = 3 + 3 * TEXTS + 6 * MAPS;
const ALIGNMENT: usize = 64; // of each region, as Arrow advises
const OVERHEAD: usize = 64; // bytes that an event counts for besides what is in it

/// Takes what is in a message, piece by piece; None where it cannot be taken.
pub trait Sink<'a> {
    /// A map begins.
    fn names(&mut self) {}
    /// One of its names.
    fn name(&mut self, _name: &'a [u8]) -> Option<()> {
        Some(())
    }
    /// The value of a column, null where there is none.
    fn text(&mut self, column: usize, value: Option<&[u8]>) -> Option<()>;
    /// An entry of a map.
    fn entry(&mut self, map: usize, name: &[u8], value: &[u8], kind: u8) -> Option<()>;
    /// The message is whole.
    fn end(&mut self, number: i64, time: i64) -> Option<()>;
}

/// How much is in messages.
#[derive(Clone, Copy, Default)]
struct Counts {
    messages: usize,
    nulls: [usize; TEXTS],
    texts: [usize; TEXTS],
    entries: [usize; MAPS],
    names: [usize; MAPS],
    values: [usize; MAPS],
}

/// Counts messages, and checks what only has to be checked once.
#[derive(Default)]
pub struct Counter<'a> {
    whole: Counts,
    so_far: Counts, // with the message that is being taken
    names: Vec<&'a [u8]>,
}

impl<'a> Counter<'a> {
    /// Forget what came of a message that was not taken to its end.
    pub fn forget(&mut self) {
        self.so_far = self.whole;
    }

    /// The memory that the messages need; None where a column is larger than Arrow's may be.
    pub fn sizes(&self) -> Option<Sizes> {
        let counts = &self.whole;
        let most = counts.texts.iter().chain(&counts.entries).chain(&counts.names).chain(&counts.values);
        i32::try_from(*most.max()?).ok()?;
        let rows = counts.messages;
        let mut regions = vec![8 * rows; 3];
        for column in 0..TEXTS {
            let bitmap = if counts.nulls[column] > 0 { (rows + 7) / 8 } else { 0 };
            regions.extend([bitmap, 4 * (rows + 1), counts.texts[column]]);
        }
        for map in 0..MAPS {
            let ends = 4 * (counts.entries[map] + 1);
            regions.extend([4 * (rows + 1), ends, counts.names[map], ends, counts.values[map]]);
            regions.push(counts.entries[map]);
        }
        Some(Sizes {
            messages: rows,
            total: regions.iter().copied().map(padded).sum(),
            nulls: counts.nulls,
            entries: counts.entries,
            regions: regions.try_into().ok()?,
        })
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
        match value {
            None => self.so_far.nulls[column] += 1,
            Some(value) => {
                if column != BODY {
                    from_utf8(value).ok()?;
                }
                self.so_far.texts[column] += value.len();
            }
        }
        Some(())
    }

    fn entry(&mut self, map: usize, name: &[u8], value: &[u8], _kind: u8) -> Option<()> {
        from_utf8(name).ok()?;
        from_utf8(value).ok()?;
        self.so_far.entries[map] += 1;
        self.so_far.names[map] += name.len();
        self.so_far.values[map] += value.len();
        Some(())
    }

    fn end(&mut self, _number: i64, _time: i64) -> Option<()> {
        self.so_far.messages += 1;
        self.whole = self.so_far;
        Some(())
    }
}

/// The memory that messages need: regions that follow each other, each padded to 64 bytes. These are sequence numbers,
/// times and sizes; for each text column its bitmap (nothing where no value is null), ends and data; for each map its
/// ends, the ends and data of the names, the ends and data of the values, and the kinds.
#[repr(C)]
pub struct Sizes {
    messages: usize,
    pub total: usize,
    nulls: [usize; TEXTS],
    entries: [usize; MAPS],
    regions: [usize; REGIONS],
}

fn padded(size: usize) -> usize {
    (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT
}

/// Texts in a row: their data, and where each ends.
struct Row<'m> {
    ends: ChunksExactMut<'m, u8>,
    data: &'m mut [u8],
    end: usize,
}

impl<'m> Row<'m> {
    fn new(ends: &'m mut [u8], data: &'m mut [u8]) -> Option<Self> {
        Some(Row { ends: starting(ends)?, data, end: 0 })
    }

    #[inline]
    fn push(&mut self, value: &[u8]) -> Option<()> {
        let end = self.end + value.len();
        self.data.get_mut(self.end..end)?.copy_from_slice(value);
        self.end = end;
        put(&mut self.ends, &(end as i32).to_ne_bytes())
    }

    fn is_full(&self) -> bool {
        self.ends.len() == 0 && self.end == self.data.len()
    }
}

/// One map for each message.
struct Map<'m> {
    ends: ChunksExactMut<'m, u8>,
    names: Row<'m>,
    values: Row<'m>,
    kinds: IterMut<'m, u8>,
    entries: i32,
}

/// The ends of values, the first of which starts at 0.
fn starting(ends: &mut [u8]) -> Option<ChunksExactMut<'_, u8>> {
    let mut ends = ends.chunks_exact_mut(4);
    put(&mut ends, &0i32.to_ne_bytes())?;
    Some(ends)
}

#[inline]
fn put(column: &mut ChunksExactMut<u8>, value: &[u8]) -> Option<()> {
    column.next()?.copy_from_slice(value);
    Some(())
}

/// Writes messages to memory of the measured size; nothing is written elsewhere if there are more.
pub struct Writer<'m> {
    numbers: ChunksExactMut<'m, u8>,
    times: ChunksExactMut<'m, u8>,
    sizes: ChunksExactMut<'m, u8>,
    texts: Vec<(&'m mut [u8], Row<'m>)>, // with the bitmaps of what is not null
    maps: Vec<Map<'m>>,
    row: usize,
    size: usize, // of the message so far
}

impl<'m> Writer<'m> {
    /// None where the memory is not as large as measured.
    pub fn new(sizes: &Sizes, mut memory: &'m mut [u8]) -> Option<Self> {
        let mut regions = Vec::with_capacity(REGIONS);
        for &size in &sizes.regions {
            let whole = size.checked_add(ALIGNMENT - 1)? / ALIGNMENT * ALIGNMENT;
            if whole > memory.len() {
                return None;
            }
            let (region, rest) = take(&mut memory).split_at_mut(whole);
            regions.push(&mut region[..size]);
            memory = rest;
        }
        let mut regions = regions.into_iter();
        let mut next = || regions.next();
        let (numbers, times, lengths) = (next()?, next()?, next()?);
        let mut texts = Vec::with_capacity(TEXTS);
        for _ in 0..TEXTS {
            let bitmap = next()?;
            bitmap.fill(0);
            texts.push((bitmap, Row::new(next()?, next()?)?));
        }
        let mut maps = Vec::with_capacity(MAPS);
        for _ in 0..MAPS {
            maps.push(Map {
                ends: starting(next()?)?,
                names: Row::new(next()?, next()?)?,
                values: Row::new(next()?, next()?)?,
                kinds: next()?.iter_mut(),
                entries: 0,
            });
        }
        Some(Writer {
            numbers: numbers.chunks_exact_mut(8),
            times: times.chunks_exact_mut(8),
            sizes: lengths.chunks_exact_mut(8),
            texts,
            maps,
            row: 0,
            size: OVERHEAD,
        })
    }

    /// Whether every region was filled to its end.
    pub fn is_full(&self) -> bool {
        let texts = self.texts.iter().all(|(_, texts)| texts.is_full());
        let maps = self.maps.iter().all(|map| {
            let is_full = map.names.is_full() && map.values.is_full() && map.ends.len() == 0;
            is_full && map.kinds.len() == 0
        });
        self.numbers.len() + self.times.len() + self.sizes.len() == 0 && texts && maps
    }
}

impl<'a> Sink<'a> for Writer<'_> {
    #[inline]
    fn text(&mut self, column: usize, value: Option<&[u8]>) -> Option<()> {
        let (bitmap, texts) = &mut self.texts[column];
        if let (Some(byte), Some(_)) = (bitmap.get_mut(self.row / 8), value) {
            *byte |= 1 << (self.row % 8);
        }
        if column == BODY || column == KEY {
            self.size += value.map_or(0, <[u8]>::len);
        }
        texts.push(value.unwrap_or_default())
    }

    #[inline]
    fn entry(&mut self, map: usize, name: &[u8], value: &[u8], kind: u8) -> Option<()> {
        let map = &mut self.maps[map];
        map.names.push(name)?;
        map.values.push(value)?;
        *map.kinds.next()? = kind;
        map.entries += 1;
        self.size += name.len() + value.len();
        Some(())
    }

    fn end(&mut self, number: i64, time: i64) -> Option<()> {
        put(&mut self.numbers, &number.to_ne_bytes())?;
        put(&mut self.times, &time.to_ne_bytes())?;
        put(&mut self.sizes, &(self.size as i64).to_ne_bytes())?;
        for map in &mut self.maps {
            put(&mut map.ends, &map.entries.to_ne_bytes())?;
        }
        self.row += 1;
        self.size = OVERHEAD;
        Some(())
    }
}
