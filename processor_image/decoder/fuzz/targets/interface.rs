//! The decoder's C interface, as its Python module declares it, with memory that has exactly the stated sizes.

use std::ptr::null_mut;

extern crate eventconsumer_decoder as _; // the functions

const TEXTS: usize = 10;
const MAPS: usize = 2;
const BODY: usize = 2;
const REGIONS: usize = 3 + 3 * TEXTS + 2 * MAPS;
const UNWRITTEN: u8 = 0xAA;

#[repr(C)]
struct RawPiece {
    data: *const u8,
    size: usize,
    head: usize,
    stops: *const i64,
    messages: usize,
}

#[repr(C)]
struct RawPieces {
    pieces: *const RawPiece,
    count: usize,
    fits: *mut u8,
    messages: usize,
}

#[repr(C)]
#[derive(Clone)]
pub struct Sizes {
    pub messages: usize,
    pub total: usize,
    pub values: [usize; TEXTS],
    pub nulls: [usize; TEXTS],
    pub regions: [usize; REGIONS],
}

extern "C" {
    fn measure(raw: *const RawPieces, sizes: *mut Sizes) -> i64;
    fn fill(raw: *const RawPieces, sizes: *const Sizes, memory: *mut u8, size: usize) -> i64;
}

/// Messages that came together.
pub struct Piece {
    pub data: Box<[u8]>,
    pub head: usize,
    pub stops: Box<[i64]>,
}

impl Piece {
    /// Messages, each behind a head.
    #[allow(dead_code)]
    pub fn of(messages: &[&[u8]], head: usize) -> Self {
        let (mut data, mut stops) = (Vec::new(), Vec::new());
        for message in messages {
            data.resize(data.len() + head, UNWRITTEN);
            data.extend_from_slice(message);
            stops.push(data.len() as i64);
        }
        Piece { data: data.into(), head, stops: stops.into() }
    }
}

/// Result, sizes, and which messages fit.
pub fn measured(pieces: &[Piece]) -> (i64, Sizes, Box<[u8]>) {
    let count = pieces.iter().map(|piece| piece.stops.len()).sum();
    let mut fits = vec![UNWRITTEN; count].into_boxed_slice();
    let mut sizes = Sizes { messages: 0, total: 0, values: [0; TEXTS], nulls: [0; TEXTS], regions: [0; REGIONS] };
    // SAFETY: each pointer leads to as many items as is said.
    let found = with(pieces, &mut fits, |raw| unsafe { measure(raw, &mut sizes) });
    (found, sizes, fits)
}

/// Result, and the columns.
pub fn filled(pieces: &[Piece], fits: &mut [u8], sizes: &Sizes, size: usize) -> (i64, Box<[u8]>) {
    let mut memory = vec![UNWRITTEN; size].into_boxed_slice();
    let at = if size == 0 { null_mut() } else { memory.as_mut_ptr() };
    // SAFETY: each pointer leads to as many items as is said.
    let found = with(pieces, fits, |raw| unsafe { fill(raw, sizes, at, size) });
    (found, memory)
}

fn with(pieces: &[Piece], fits: &mut [u8], call: impl FnOnce(&RawPieces) -> i64) -> i64 {
    let raw: Box<[RawPiece]> = pieces
        .iter()
        .map(|piece| RawPiece {
            data: piece.data.as_ptr(),
            size: piece.data.len(),
            head: piece.head,
            stops: piece.stops.as_ptr(),
            messages: piece.stops.len(),
        })
        .collect();
    call(&RawPieces { pieces: raw.as_ptr(), count: raw.len(), fits: fits.as_mut_ptr(), messages: fits.len() })
}

/// Check what Arrow reads without a check: ends that rise to the size of the data, UTF-8, and bitmaps.
#[allow(dead_code)]
pub fn check(sizes: &Sizes, memory: &[u8]) {
    let mut rest = memory;
    let regions: Vec<&[u8]> = sizes
        .regions
        .iter()
        .map(|&size| {
            let (region, after) = rest.split_at((size + 63) / 64 * 64);
            rest = after;
            &region[..size]
        })
        .collect();
    assert!(rest.is_empty());
    assert!(regions[..3].iter().all(|region| region.len() == 8 * sizes.messages));
    for column in 0..TEXTS {
        let (bitmap, ends, data) = (regions[3 + 3 * column], regions[4 + 3 * column], regions[5 + 3 * column]);
        let ends = rising(ends, sizes.values[column], data.len());
        assert!(column == BODY || std::str::from_utf8(data).is_ok());
        assert!(column == BODY || ends.windows(2).all(|two| std::str::from_utf8(&data[two[0]..two[1]]).is_ok()));
        if sizes.nulls[column] > 0 {
            let is_value = |index: usize| bitmap[index / 8] >> (index % 8) & 1 == 1;
            let nulls: Vec<usize> = (0..sizes.values[column]).filter(|&index| !is_value(index)).collect();
            assert_eq!(nulls.len(), sizes.nulls[column]);
            assert!(nulls.iter().all(|&index| ends[index] == ends[index + 1]));
        } else {
            assert!(bitmap.is_empty());
        }
        assert!(column >= 6 || sizes.values[column] == sizes.messages);
    }
    for map in 0..MAPS {
        let entries = sizes.values[6 + 2 * map];
        rising(regions[3 + 3 * TEXTS + 2 * map], sizes.messages, entries);
        let kinds = regions[4 + 3 * TEXTS + 2 * map];
        assert!(kinds.len() == entries && kinds.iter().all(|&kind| kind <= 4));
        assert_eq!(sizes.values[7 + 2 * map], entries);
    }
}

#[allow(dead_code)]
fn rising(region: &[u8], count: usize, last: usize) -> Vec<usize> {
    let ends: Vec<usize> =
        region.chunks(4).map(|end| i32::from_ne_bytes(end.try_into().unwrap()).try_into().unwrap()).collect();
    assert_eq!(ends.len(), count + 1);
    assert!(ends[0] == 0 && ends[count] == last && ends.windows(2).all(|two| two[0] <= two[1]));
    ends
}
