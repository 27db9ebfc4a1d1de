//! Whole WebSocket messages without their heads: RFC 6455, section 5.2.

#![forbid(unsafe_code)]

const WHOLE_BINARY: u8 = 0x82; // one frame is the whole message
const TWO_BYTES: u8 = 126; // marks of a length that follows; a larger number is a masked frame
const EIGHT_BYTES: u8 = 127;

/// Positions in a buffer: of the next head, and behind the payloads.
#[repr(C)]
#[derive(Debug, PartialEq)]
pub struct Place {
    pub head: u64,
    pub end: u64,
}

/// Move the payloads of whole messages to the end of the payloads before them, until a frame is another one or is cut off.
/// False if the place is not inside the data.
pub fn join(data: &mut [u8], place: &mut Place) -> bool {
    if place.end > place.head || place.head > data.len() as u64 {
        return false;
    }
    let (mut head, mut end) = (place.head as usize, place.end as usize);
    while let Some((start, stop)) = payload(data, head) {
        data.copy_within(start..stop, end);
        (head, end) = (stop, end + stop - start);
    }
    *place = Place { head: head as u64, end: end as u64 };
    true
}

fn payload(data: &[u8], head: usize) -> Option<(usize, usize)> {
    let rest = data.get(head..)?;
    let (size, width) = match *rest.get(..2)? {
        [WHOLE_BINARY, TWO_BYTES] => (usize::from(u16::from_be_bytes(rest.get(2..4)?.try_into().ok()?)), 2),
        [WHOLE_BINARY, EIGHT_BYTES] => {
            (usize::try_from(u64::from_be_bytes(rest.get(2..10)?.try_into().ok()?)).ok()?, 8)
        }
        [WHOLE_BINARY, size] if size < TWO_BYTES => (usize::from(size), 0),
        _ => return None,
    };
    let start = head + 2 + width;
    let stop = start.checked_add(size)?;
    (stop <= data.len()).then_some((start, stop))
}
