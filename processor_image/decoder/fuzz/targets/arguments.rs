//! Arguments that contradict each other: a failure, and nothing is read or written beyond the given memory.
//!
//! Input: size of heads, number of ends, size of the memory, and a changed size with its place, a byte each; ends;
//! messages.

#![no_main]

use libfuzzer_sys::fuzz_target;

mod interface;

use interface::{filled, measured, Piece};

const FAILURES: std::ops::RangeInclusive<i64> = -4..=-2; // -1 is a panic

fuzz_target!(|input: &[u8]| {
    let Some((&[head, count, less, place, change], rest)) = input.split_first_chunk::<5>() else { return };
    let count = usize::from(count & 7);
    if rest.len() < count {
        return;
    }
    let (ends, data) = rest.split_at(count);
    let head = if head == 255 { usize::MAX } else { head.into() };
    let stops = ends.iter().map(|&end| if end == 255 { i64::MIN } else { end.into() }).collect();
    let pieces = [Piece { data: data.into(), head, stops }];
    let (found, sizes, mut fits) = measured(&pieces);
    assert!(found == 0 || FAILURES.contains(&found));
    if found != 0 {
        return;
    }
    let mut changed = sizes.clone();
    let at = usize::from(place) % changed.regions.len();
    changed.regions[at] = if change == 255 { usize::MAX } else { change.into() };
    let memory = sizes.total.saturating_sub(less.into());
    for fit in [false, true] {
        if fit {
            fits.iter_mut().for_each(|fit| *fit ^= 1);
        }
        for (sizes, memory) in [(&sizes, memory), (&changed, sizes.total), (&changed, sizes.total + 128)] {
            let (found, _) = filled(&pieces, &mut fits, sizes, memory);
            assert!(found == 0 || FAILURES.contains(&found));
        }
    }
});
