//! Any messages, in any pieces: the columns are consistent, and the same for all messages in one piece.
//!
//! Input: a byte with the size of heads (three bits) and of pieces (two bits), and messages with FE FF between them.

#![no_main]

use libfuzzer_sys::fuzz_target;

mod interface;

use interface::{check, filled, measured, Piece};

fuzz_target!(|input: &[u8]| {
    let Some((&form, rest)) = input.split_first() else { return };
    let messages = split(rest);
    let (head, together) = (usize::from(form & 7), usize::from(form >> 3 & 3) + 1);
    let pieces: Vec<Piece> = messages.chunks(together).map(|some| Piece::of(some, head)).collect();
    let (found, sizes, mut fits) = measured(&pieces);
    assert_eq!(found, 0);
    assert!(fits.iter().all(|&fit| fit <= 1));
    assert_eq!(fits.iter().filter(|&&fit| fit == 1).count(), sizes.messages);
    let (found, memory) = filled(&pieces, &mut fits, &sizes, sizes.total);
    assert_eq!(found, 0);
    check(&sizes, &memory);

    let whole = [Piece::of(&messages, 0)];
    let (found, same, mut others) = measured(&whole);
    assert_eq!((found, same.total, &others), (0, sizes.total, &fits));
    assert!(filled(&whole, &mut others, &same, same.total) == (0, memory));
});

fn split(input: &[u8]) -> Vec<&[u8]> {
    let (mut found, mut start) = (Vec::new(), 0);
    for (at, two) in input.windows(2).enumerate() {
        if two == [0xFE, 0xFF] {
            found.push(&input[start..at.max(start)]);
            start = at + 2;
        }
    }
    found.push(&input[start.min(input.len())..]);
    found
}
