//! Any frames: the compiled search finds those that a plain one finds.
//!
//! Input: size of the head, maximum size of a frame and number of ends, a byte each; head; mask; frames.

#![no_main]

use libfuzzer_sys::fuzz_target;

extern crate eventconsumer_decoder as _;

extern "C" {
    fn scan(
        data: *const u8,
        size: usize,
        head: *const u8,
        mask: *const u8,
        head_size: usize,
        most: u64,
        stops: *mut i64,
        capacity: usize,
    ) -> i64;
}

fuzz_target!(|input: &[u8]| {
    let Some((&[head_size, most, capacity], rest)) = input.split_first_chunk::<3>() else { return };
    let head_size = usize::from(head_size & 31);
    if rest.len() < 2 * head_size {
        return;
    }
    let (head, rest) = rest.split_at(head_size);
    let (mask, data) = rest.split_at(head_size);
    let [head, mask, data] = [head, mask, data].map(Box::<[u8]>::from); // of exactly these sizes
    let mut stops = vec![-1i64; capacity.into()].into_boxed_slice();
    // SAFETY: each pointer leads to as many items as is said.
    let found = unsafe {
        scan(
            data.as_ptr(),
            data.len(),
            head.as_ptr(),
            mask.as_ptr(),
            head_size,
            most.into(),
            stops.as_mut_ptr(),
            stops.len(),
        )
    };
    if head_size < 4 {
        assert_eq!(found, -3);
        return;
    }
    let expected = plain(&data, &head, &mask, most.into(), stops.len());
    assert_eq!(found, expected.len() as i64);
    assert_eq!(stops[..expected.len()], expected);
    assert!(stops[expected.len()..].iter().all(|&stop| stop == -1));
});

fn plain(data: &[u8], head: &[u8], mask: &[u8], most: usize, count: usize) -> Vec<i64> {
    let (mut found, mut pos) = (Vec::new(), 0);
    while found.len() < count && data.len() - pos >= head.len() {
        let size = u32::from_be_bytes(data[pos..pos + 4].try_into().unwrap()) as usize;
        let same = (4..head.len()).all(|at| (data[pos + at] ^ head[at]) & mask[at] == 0);
        if size < head.len() || size > most || size > data.len() - pos || !same {
            break;
        }
        pos += size;
        found.push(pos as i64);
    }
    found
}
