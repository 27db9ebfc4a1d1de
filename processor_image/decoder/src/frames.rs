//! Consecutive frames, found without decoding their content.

#![forbid(unsafe_code)]

/// How the frames that are looked for begin: their sizes first, and then the bytes of `head` wherever `mask` has bits.
pub struct Shape<'a> {
    pub head: &'a [u8],
    pub mask: &'a [u8],
    pub most: u64,
}

/// Write the ends of the frames that are whole and of that shape, from the first one on, until one is not; how many.
pub fn scan(data: &[u8], shape: &Shape, stops: &mut [i64]) -> usize {
    let (mut pos, mut count) = (0, 0);
    for stop in stops {
        match end(data, pos, shape) {
            Some(end) => pos = end,
            None => break,
        }
        *stop = pos as i64;
        count += 1;
    }
    count
}

fn end(data: &[u8], pos: usize, shape: &Shape) -> Option<usize> {
    let rest = data.get(pos..)?;
    let size = u32::from_be_bytes(rest.get(..4)?.try_into().ok()?);
    let frame = rest.get(..usize::try_from(size).ok()?)?;
    let head = frame.get(4..shape.head.len())?; // so a frame of no bytes is none
    let wanted = shape.head[4..].iter().zip(&shape.mask[4..]);
    let differs = head.iter().zip(wanted).fold(0, |bits, (byte, (head, mask))| bits | ((byte ^ head) & mask));
    if differs != 0 || u64::from(size) > shape.most {
        return None;
    }
    Some(pos + frame.len())
}
