//! Values as texts, with the kinds of the values.

#![forbid(unsafe_code)]

use std::fmt::{self, Write};
use std::iter::repeat;

use crate::reader::Value;

/// What a text was, by the numbers that the columns have for it.
pub const TEXT: u8 = 0;
pub const INTEGER: u8 = 1;
pub const FLOAT: u8 = 2;
pub const NULL: u8 = 3;
pub const BINARY: u8 = 4;

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const HEX: &[u8; 16] = b"0123456789abcdef";

/// Whether a value is a string or a symbol.
pub fn is_text(value: Value) -> bool {
    matches!(value.code, 0xA1 | 0xA3 | 0xB1 | 0xB3)
}

/// The number of a signed integer or a timestamp.
pub fn signed(value: Value) -> Option<i64> {
    let bits = value.bits()?;
    Some(match value.code {
        0x51 | 0x54 | 0x55 => (bits as i8).into(),
        0x61 => (bits as i16).into(),
        0x71 => (bits as i32).into(),
        0x81 | 0x83 => bits as i64,
        _ => return None,
    })
}

/// A value as text and its kind, written to `room` if it is not text itself; None if it is not a single value.
/// Strings are given as they are: they may be no UTF-8. A binary is `{"$binary":"<base64>"}`.
#[inline]
pub fn of<'a>(value: Value<'a>, room: &'a mut Room) -> Option<(&'a [u8], u8)> {
    match value.code {
        0xA1 | 0xA3 | 0xB1 | 0xB3 => Some((value.bytes, TEXT)),
        0xA0 | 0xB0 => Some((room.binary(value.bytes), BINARY)),
        0x40 => Some((b"null", NULL)),
        0x41 | 0x42 | 0x56 => {
            let is_true = value.code == 0x41 || value.bytes == [1];
            Some((if is_true { b"true" } else { b"false" }, TEXT))
        }
        0x43 | 0x44 | 0x50 | 0x52 | 0x53 | 0x60 | 0x70 | 0x80 => {
            let number = value.bits()?;
            let kind = if i64::try_from(number).is_ok() { INTEGER } else { TEXT };
            Some((room.integer(false, number), kind))
        }
        0x72 => Some((room.float(f32::from_bits(value.bits()? as u32).into())?, FLOAT)),
        0x82 => Some((room.float(f64::from_bits(value.bits()?))?, FLOAT)),
        0x98 => Some((room.uuid(value.bytes), TEXT)),
        _ => {
            let number = signed(value)?;
            Some((room.integer(number < 0, number.unsigned_abs()), INTEGER))
        }
    }
}

/// Where a text is made: the longest has 36 bytes, but for that of a binary.
pub struct Room {
    bytes: [u8; 40],
    end: usize,
    binary: Vec<u8>,
}

impl Room {
    pub fn new() -> Self {
        Room { bytes: [0; 40], end: 0, binary: Vec::new() }
    }

    /// An integer in decimal, written from its end.
    fn integer(&mut self, is_negative: bool, mut number: u64) -> &[u8] {
        let mut start = self.bytes.len();
        loop {
            start -= 1;
            self.bytes[start] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        if is_negative {
            start -= 1;
            self.bytes[start] = b'-';
        }
        &self.bytes[start..]
    }

    /// A number as Python's JSON has it: the fewest digits that mean it, with an exponent if it is very large or small.
    fn float(&mut self, number: f64) -> Option<&[u8]> {
        if number.is_nan() {
            return Some(b"NaN");
        } else if number.is_infinite() {
            return Some(if number > 0.0 { b"Infinity" } else { b"-Infinity" });
        }
        let shortest = shortest(number)?;
        let (mantissa, exponent) = shortest.text().split_once('e')?;
        let exponent: i32 = exponent.parse().ok()?;
        self.end = 0;
        if !(-4..16).contains(&exponent) {
            write!(self, "{}e{:+03}", mantissa, exponent).ok()?;
            return Some(&self.bytes[..self.end]);
        }
        if number.is_sign_negative() {
            self.put(b'-');
        }
        let zeros = repeat(b'0').take((-exponent).max(0) as usize);
        let mut digits = zeros.chain(mantissa.bytes().filter(u8::is_ascii_digit));
        for _ in 0..=exponent.max(0) {
            self.put(digits.next().unwrap_or(b'0'));
        }
        self.put(b'.');
        self.put(digits.next().unwrap_or(b'0'));
        digits.for_each(|digit| self.put(digit));
        Some(&self.bytes[..self.end])
    }

    fn uuid(&mut self, bytes: &[u8]) -> &[u8] {
        self.end = 0;
        for (index, byte) in bytes.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                self.put(b'-');
            }
            self.put(HEX[usize::from(byte >> 4)]);
            self.put(HEX[usize::from(byte & 15)]);
        }
        &self.bytes[..self.end]
    }

    fn binary(&mut self, bytes: &[u8]) -> &[u8] {
        let made = &mut self.binary;
        made.reserve(bytes.len() / 3 * 4 + 20);
        made.extend(b"{\"$binary\":\"");
        for three in bytes.chunks(3) {
            let bits = three.iter().enumerate().fold(0, |bits, (at, &byte)| bits | u32::from(byte) << (16 - 8 * at));
            for at in 0..4 {
                let digit = BASE64[(bits >> (18 - 6 * at)) as usize & 63];
                made.push(if at > three.len() { b'=' } else { digit });
            }
        }
        made.extend(b"\"}");
        made
    }

    fn put(&mut self, byte: u8) {
        self.bytes[self.end] = byte;
        self.end += 1;
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.end]).unwrap_or_default()
    }
}

/// The fewest digits that mean a number, with an exponent. Where two such texts are equally near to it, as they may be
/// from 16 digits on, Python takes the even one, and Rust's shortest form may be the other.
fn shortest(number: f64) -> Option<Room> {
    let mut found = Room::new();
    write!(found, "{:e}", number).ok()?;
    let mantissa = found.text().split('e').next()?;
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).count();
    if digits >= 16 && mantissa.bytes().last()? % 2 == 1 {
        let mut nearest = Room::new();
        write!(nearest, "{:.*e}", digits - 1, number).ok()?;
        if nearest.text().parse() == Ok(number) {
            return Some(nearest); // and where the nearest means another number, there are no two
        }
    }
    Some(found)
}

impl Write for Room {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.end + text.len();
        let place = self.bytes.get_mut(self.end..end).ok_or(fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.end = end;
        Ok(())
    }
}
