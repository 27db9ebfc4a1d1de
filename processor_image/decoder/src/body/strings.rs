//! Strings of JSON: their ends, their characters, and the other way round.

#![forbid(unsafe_code)]

/// The end of a string, and what it has.
pub struct End {
    /// Of its closing quote.
    pub end: usize,
    pub escaped: bool,
    /// Whether an escape is half of a surrogate pair.
    pub is_half: bool,
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// The end of a string that starts behind its quote; None if it has none, or something that a string cannot have.
#[inline]
pub fn end(text: &[u8], at: usize) -> Option<End> {
    let at = plain(text, at);
    if *text.get(at)? == b'"' {
        return Some(End { end: at, escaped: false, is_half: false });
    }
    escaped_end(text, at)
}

fn escaped_end(text: &[u8], mut at: usize) -> Option<End> {
    let mut is_half = false;
    loop {
        at = plain(text, at);
        match *text.get(at)? {
            b'"' => return Some(End { end: at, escaped: true, is_half }),
            b'\\' => {}
            _ => return None, // a control character
        }
        match *text.get(at + 1)? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => at += 2,
            b'u' => {
                let first = code(text, at + 2)?;
                at += 6;
                if first & 0xF800 == 0xD800 {
                    if is_low_escape(text, at) && first < 0xDC00 {
                        at += 6;
                    } else {
                        is_half = true;
                    }
                }
            }
            _ => return None,
        }
    }
}

/// Where the next quote, backslash or control character is.
#[inline]
fn plain(text: &[u8], mut at: usize) -> usize {
    while let Some(word) = text.get(at..at + 8) {
        let word = u64::from_le_bytes(word.try_into().unwrap_or_default());
        let quotes = word ^ (ONES * b'"' as u64);
        let slashes = word ^ (ONES * b'\\' as u64);
        // The lowest bit that is set is that of the first such byte; higher ones may be wrong.
        let found = (quotes.wrapping_sub(ONES) & !quotes
            | slashes.wrapping_sub(ONES) & !slashes
            | word.wrapping_sub(ONES * 0x20) & !word)
            & HIGH;
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while text.get(at).map_or(false, |&byte| byte != b'"' && byte != b'\\' && byte >= 0x20) {
        at += 1;
    }
    at
}

/// The four digits of an escape.
fn code(text: &[u8], at: usize) -> Option<u32> {
    let mut found = 0;
    for &byte in text.get(at..at + 4)? {
        found = found << 4 | char::from(byte).to_digit(16)?;
    }
    Some(found)
}

fn is_low_escape(text: &[u8], at: usize) -> bool {
    text.get(at..at + 2) == Some(b"\\u") && code(text, at + 2).map_or(false, |code| code & 0xFC00 == 0xDC00)
}

/// Append the characters of a string, which is valid; U+FFFD for half of a surrogate pair.
pub fn unescape(string: &[u8], out: &mut Vec<u8>) {
    let mut at = 0;
    while at < string.len() {
        let next = string[at..].iter().position(|&byte| byte == b'\\').map_or(string.len(), |plain| at + plain);
        out.extend_from_slice(&string[at..next]);
        at = next + 2;
        let byte = match string.get(next + 1) {
            None => return,
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => {
                let mut found = code(string, next + 2).unwrap_or_default();
                at = next + 6;
                if found & 0xFC00 == 0xD800 && is_low_escape(string, at) {
                    found = 0x10000 + ((found & 0x3FF) << 10 | code(string, at + 2).unwrap_or_default() & 0x3FF);
                    at += 6;
                }
                let character = char::from_u32(found).unwrap_or(char::REPLACEMENT_CHARACTER);
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
            Some(&byte) => byte,
        };
        out.push(byte);
    }
}

/// Append a text as JSON.
pub fn quote(text: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    out.push(b'"');
    for &byte in text {
        let short = match byte {
            b'"' | b'\\' => byte,
            8 => b'b',
            9 => b't',
            10 => b'n',
            12 => b'f',
            13 => b'r',
            0..=0x1F => {
                out.extend_from_slice(&[
                    b'\\',
                    b'u',
                    b'0',
                    b'0',
                    HEX[usize::from(byte >> 4)],
                    HEX[usize::from(byte & 15)],
                ]);
                continue;
            }
            _ => {
                out.push(byte);
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', short]);
    }
    out.push(b'"');
}

/// How many characters a text of UTF-8 has.
pub fn characters(text: &[u8]) -> usize {
    text.iter().filter(|&&byte| byte & 0xC0 != 0x80).count()
}
