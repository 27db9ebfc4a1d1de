//! Any WebSocket frames: heads of whole messages are removed as by a plain loop, and nothing else changes.
//!
//! Input: the two positions, a byte each; the buffer.

#![no_main]

use libfuzzer_sys::fuzz_target;

extern crate eventconsumer_decoder as _;

#[repr(C)]
#[derive(Debug, PartialEq)]
struct Place {
    head: u64,
    end: u64,
}

extern "C" {
    fn join(data: *mut u8, size: usize, place: *mut Place) -> i64;
}

fuzz_target!(|input: &[u8]| {
    let Some((&[head, end], rest)) = input.split_first_chunk::<2>() else { return };
    let mut data = Box::<[u8]>::from(rest); // of exactly this size
    let mut place = Place { head: head.into(), end: end.into() };
    // SAFETY: the pointers lead to as many items as is said.
    let found = unsafe { join(data.as_mut_ptr(), data.len(), &mut place) };
    let (mut head, mut end) = (usize::from(head), usize::from(end));
    if end > head || head > rest.len() {
        assert_eq!(found, -3);
        assert_eq!(&*data, rest);
        return;
    }
    let mut expected = rest.to_vec();
    while let Some((start, stop)) = payload(rest, head) {
        expected[end..end + stop - start].copy_from_slice(&rest[start..stop]);
        (head, end) = (stop, end + stop - start);
    }
    assert_eq!((found, place), (0, Place { head: head as u64, end: end as u64 }));
    assert_eq!(&*data, expected);
});

fn payload(data: &[u8], head: usize) -> Option<(usize, usize)> {
    let frame = &data[head..];
    if frame.len() < 2 || frame[0] != 0x82 || frame[1] > 127 {
        return None;
    }
    let width = [0, 2, 8][usize::from(frame[1].max(125) - 125)];
    let length = frame.get(2..2 + width)?.iter().fold(0u128, |sum, &byte| sum << 8 | u128::from(byte));
    let size = if width == 0 { u128::from(frame[1]) } else { length };
    let start = head + 2 + width;
    let stop = start as u128 + size;
    (stop <= data.len() as u128).then_some((start, stop as usize))
}
