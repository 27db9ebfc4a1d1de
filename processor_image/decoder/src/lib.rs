//! Encoded AMQP messages, and bodies with JSON, to Arrow buffers: the C interface. Everything unsafe is here, the other modules are safe Rust.
//!
//! A call gets memory of the caller's and keeps none of it; what `body_parse` makes is the caller's to release. What is wrong with the arguments, or with this library, is
//! a negative number (see `batch::Failure`); messages that do not fit are no failure.

#![deny(unsafe_op_in_unsafe_fn)]

mod batch;
mod body;
mod columns;
mod frames;
mod message;
mod reader;
mod text;
mod websocket;

use std::mem::{align_of, size_of};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::slice;

use batch::Failure::{self, BadArguments, Panicked};
use batch::Piece;
use body::{Bodies, Parsed};
use columns::Sizes;
use frames::Shape;
use websocket::Place;

/// Messages in one piece of memory: the bytes before each of them, and where they end.
#[repr(C)]
pub struct RawPiece {
    data: *const u8,
    size: usize,
    head: usize,
    stops: *const i64,
    messages: usize,
}

/// Pieces, and which of the messages in all of them fit: one byte for each.
#[repr(C)]
pub struct RawPieces {
    pieces: *const RawPiece,
    count: usize,
    fits: *mut u8,
    messages: usize,
}

/// The bodies of events, see `body::Bodies`. `ends` has one more than `rows`; `valid` is null if no body is.
#[repr(C)]
pub struct RawBodies {
    data: *const u8,
    size: usize,
    ends: *const i32,
    rows: usize,
    valid: *const u8,
    first: usize,
}

/// Increased with each change of the functions, their arguments or their results.
#[no_mangle]
pub extern "C" fn interface() -> u32 {
    4
}

/// Find frames that follow each other from the first byte on: whole, of `head_size` to `most` bytes, and with the bytes of
/// `head` behind their size, in the bits that `mask` has. Their ends go to `stops`; returns how many, or a failure.
///
/// # Safety
/// The pointers lead to as many items as their sizes say, which nothing else writes to during the call.
#[no_mangle]
pub unsafe extern "C" fn scan(
    data: *const u8,
    size: usize,
    head: *const u8,
    mask: *const u8,
    head_size: usize,
    most: u64,
    stops: *mut i64,
    capacity: usize,
) -> i64 {
    caught(|| {
        // SAFETY: the caller promises it.
        let (data, head, mask, stops) = unsafe {
            (items(data, size)?, items(head, head_size)?, items(mask, head_size)?, items_mut(stops, capacity)?)
        };
        if head_size < 4 {
            return Err(BadArguments);
        }
        Ok(frames::scan(data, &Shape { head, mask, most }, stops) as i64)
    })
}

/// Remove the heads of whole WebSocket messages; `place` moves behind them. Returns 0 or a failure.
///
/// # Safety
/// As for `scan`; `place` leads to one item.
#[no_mangle]
pub unsafe extern "C" fn join(data: *mut u8, size: usize, place: *mut Place) -> i64 {
    caught(|| {
        // SAFETY: the caller promises it.
        let (data, place) = unsafe { (items_mut(data, size)?, place.as_mut().ok_or(BadArguments)?) };
        websocket::join(data, place).then_some(0).ok_or(BadArguments)
    })
}

/// Say in `fits` which messages can be taken, and in `sizes` the memory that they need. Returns 0 or a failure.
///
/// # Safety
/// As for `scan`; `raw` and `sizes` lead to one item each.
#[no_mangle]
pub unsafe extern "C" fn measure(raw: *const RawPieces, sizes: *mut Sizes) -> i64 {
    caught(|| {
        // SAFETY: the caller promises it.
        let (raw, sizes) = unsafe { (raw.as_ref().ok_or(BadArguments)?, sizes.as_mut().ok_or(BadArguments)?) };
        // SAFETY: the caller promises it for what is behind the pointers in `raw`, too.
        let (pieces, fits) = unsafe { (pieces(raw)?, items_mut(raw.fits, raw.messages)?) };
        *sizes = batch::measure(&pieces, fits)?;
        Ok(0)
    })
}

/// Write the supported messages to memory of `size` bytes, the measured size. Returns 0 or a failure.
///
/// # Safety
/// As for `measure`.
#[no_mangle]
pub unsafe extern "C" fn fill(raw: *const RawPieces, sizes: *const Sizes, memory: *mut u8, size: usize) -> i64 {
    caught(|| {
        // SAFETY: the caller promises it. The memory was allocated elsewhere, so it holds bytes, whichever these are.
        let memory = unsafe { items_mut(memory, size)? };
        // SAFETY: the caller promises it.
        let (raw, sizes) = unsafe { (raw.as_ref().ok_or(BadArguments)?, sizes.as_ref().ok_or(BadArguments)?) };
        // SAFETY: the caller promises it for what is behind the pointers in `raw`, too.
        let (pieces, fits) = unsafe { (pieces(raw)?, items(raw.fits, raw.messages)?) };
        batch::fill(&pieces, fits, sizes, memory)?;
        Ok(0)
    })
}

/// Make columns of bodies by a plan; they are put in `parsed`, and their numbers in `numbers`. Returns the size of their
/// memory or a failure, after which there are none.
///
/// # Safety
/// As for `scan`; `raw` and `parsed` lead to one item each.
#[no_mangle]
pub unsafe extern "C" fn body_parse(
    plan: *const u8,
    plan_size: usize,
    raw: *const RawBodies,
    numbers: *mut u64,
    count: usize,
    parsed: *mut *mut Parsed,
) -> i64 {
    caught(|| {
        // SAFETY: the caller promises it.
        let (plan, raw) = unsafe { (items(plan, plan_size)?, raw.as_ref().ok_or(BadArguments)?) };
        // SAFETY: the caller promises it.
        let (numbers, parsed) = unsafe { (items_mut(numbers, count)?, parsed.as_mut().ok_or(BadArguments)?) };
        let ends = raw.rows.checked_add(1).ok_or(BadArguments)?;
        let bits = if raw.valid.is_null() { 0 } else { raw.first.checked_add(raw.rows).ok_or(BadArguments)? };
        // SAFETY: the caller promises it for what is behind the pointers in `raw`, too.
        let (data, ends, valid) = unsafe {
            (
                items(raw.data, raw.size)?,
                items(raw.ends, ends)?,
                items(raw.valid, bits / 8 + usize::from(bits % 8 > 0))?,
            )
        };
        let made = Parsed::of(plan, &Bodies { data, ends, valid, first: raw.first })?;
        let (found, size) = made.numbers();
        if found.len() != count {
            return Err(BadArguments);
        }
        numbers.copy_from_slice(&found);
        let size = i64::try_from(size).map_err(|_| Failure::TooLarge)?;
        *parsed = Box::into_raw(Box::new(made));
        Ok(size)
    })
}

/// Write columns to memory of `size` bytes, the size that `body_parse` returned. Returns 0 or a failure.
///
/// # Safety
/// As for `scan`; `parsed` is of `body_parse`, and not released.
#[no_mangle]
pub unsafe extern "C" fn body_write(parsed: *const Parsed, memory: *mut u8, size: usize) -> i64 {
    caught(|| {
        // SAFETY: the caller promises it. The memory was allocated elsewhere, so it holds bytes, whichever these are.
        let (parsed, memory) = unsafe { (parsed.as_ref().ok_or(BadArguments)?, items_mut(memory, size)?) };
        parsed.write(memory)?;
        Ok(0)
    })
}

/// Release columns. Returns 0 or a failure.
///
/// # Safety
/// `parsed` is of `body_parse`, and not released.
#[no_mangle]
pub unsafe extern "C" fn body_release(parsed: *mut Parsed) -> i64 {
    caught(|| {
        check(parsed, 1)?;
        // SAFETY: the caller promises it.
        drop(unsafe { Box::from_raw(parsed) });
        Ok(0)
    })
}

/// The pieces of a call.
///
/// # Safety
/// The pointers lead to as many items as the counts say, which nothing writes to during the call.
unsafe fn pieces(raw: &RawPieces) -> Result<Vec<Piece<'_>>, Failure> {
    // SAFETY: the caller promises it.
    let parts = unsafe { items(raw.pieces, raw.count)? };
    let mut found = Vec::with_capacity(parts.len());
    let mut left = raw.messages;
    for part in parts {
        // SAFETY: the caller promises it.
        let (data, stops) = unsafe { (items(part.data, part.size)?, items(part.stops, part.messages)?) };
        left = left.checked_sub(part.messages).ok_or(BadArguments)?;
        found.push(Piece { data, head: part.head, stops });
    }
    (left == 0).then_some(found).ok_or(BadArguments)
}

/// Items that the caller has.
///
/// # Safety
/// There are `count` of them at `at`, which nothing writes to for as long as they are used.
unsafe fn items<'a, T>(at: *const T, count: usize) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    check(at, count)?;
    // SAFETY: the caller promises it, and the rest is checked.
    Ok(unsafe { slice::from_raw_parts(at, count) })
}

/// Items of the caller's that are written to.
///
/// # Safety
/// There are `count` of them at `at`, which nothing else uses for as long as they are used.
unsafe fn items_mut<'a, T>(at: *mut T, count: usize) -> Result<&'a mut [T], Failure> {
    if count == 0 {
        return Ok(&mut []);
    }
    check(at, count)?;
    // SAFETY: the caller promises it, and the rest is checked.
    Ok(unsafe { slice::from_raw_parts_mut(at, count) })
}

fn check<T>(at: *const T, count: usize) -> Result<(), Failure> {
    let is_aligned = at as usize % align_of::<T>() == 0;
    let is_possible = count <= isize::MAX as usize / size_of::<T>();
    (!at.is_null() && is_aligned && is_possible).then_some(()).ok_or(BadArguments)
}

/// What a call returns: a panic must not reach the caller, which is no Rust.
fn caught(call: impl FnOnce() -> Result<i64, Failure>) -> i64 {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(found)) => found,
        Ok(Err(failure)) => failure as i64,
        Err(_) => Panicked as i64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::{null, null_mut};

    #[test]
    fn a_panic_does_not_reach_the_caller() {
        assert_eq!(caught(|| panic!("as it should")), -1);
    }

    #[test]
    fn addresses_that_are_none_are_refused() {
        let bytes = [0u8; 32];
        // SAFETY: nothing is read where the address is refused.
        unsafe {
            assert_eq!(items::<u8>(null(), 1), Err(BadArguments));
            assert_eq!(items(bytes.as_ptr(), usize::MAX), Err(BadArguments));
            assert_eq!(
                items(bytes.as_ptr().wrapping_add(1 + bytes.as_ptr() as usize % 2) as *const i64, 1),
                Err(BadArguments)
            );
            assert_eq!(items::<u8>(null(), 0), Ok(&[][..]));
            assert_eq!(measure(null(), null_mut()), -3);
            assert_eq!(fill(null(), null(), null_mut(), 0), -3);
            assert_eq!(scan(bytes.as_ptr(), 32, null(), null(), 0, 512, null_mut(), 0), -3);
            assert_eq!(join(null_mut(), 0, null_mut()), -3);
            assert_eq!(body_parse(null(), 0, null(), null_mut(), 0, null_mut()), -3);
            assert_eq!(body_write(null(), null_mut(), 0), -3);
            assert_eq!(body_release(null_mut()), -3);
        }
    }

    #[test]
    fn pieces_have_all_messages_and_no_more() {
        let stops = [0i64; 2];
        let part = RawPiece { data: null(), size: 0, head: 0, stops: stops.as_ptr(), messages: 2 };
        for messages in 0..4 {
            let mut fits = [9u8; 4];
            let raw = RawPieces { pieces: &part, count: 1, fits: fits.as_mut_ptr(), messages };
            let mut sizes = std::mem::MaybeUninit::zeroed();
            // SAFETY: each pointer leads to as many items as is said.
            let found = unsafe { measure(&raw, sizes.as_mut_ptr()) };
            assert_eq!(found, if messages == 2 { 0 } else { -3 });
            assert_eq!(fits, if messages == 2 { [0, 0, 9, 9] } else { [9; 4] });
        }
    }
}
