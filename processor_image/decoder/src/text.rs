//! Values as texts, and what they are the texts of.

#![forbid(unsafe_code)]

use std::fmt::{self, Write};

use crate::reader::Value;

/// What a text was, by the numbers that the columns have for it.
pub const TEXT: u8 = 0;
pub const INTEGER: u8 = 1;
pub const FLOAT: u8 = 2;
pub const NULL: u8 = 3;

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

/// A value as text and its kind, written to `room` where it is none itself; None where it is of no single value.
/// Strings and binaries are given as they are: they may be no UTF-8.
#[inline]
pub fn of<'a>(value: Value<'a>, room: &'a mut Room) -> Option<(&'a [u8], u8)> {
    match value.code {
        0xA0 | 0xA1 | 0xA3 | 0xB0 | 0xB1 | 0xB3 => Some((value.bytes, TEXT)),
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

/// Where a text is made: the longest has 36 bytes.
pub struct Room {
    bytes: [u8; 40],
    end: usize,
}

impl Room {
    pub fn new() -> Self {
        Room { bytes: [0; 40], end: 0 }
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
        let size = number.abs();
        self.end = 0;
        if number.is_nan() {
            return Some(b"NaN");
        } else if size.is_infinite() {
            return Some(if number > 0.0 { b"Infinity" } else { b"-Infinity" });
        } else if size != 0.0 && !(1e-4..1e16).contains(&size) {
            write!(self, "{:e}", number).ok()?;
            let mark = self.bytes[..self.end].iter().position(|&byte| byte == b'e')?;
            let exponent = std::str::from_utf8(&self.bytes[mark + 1..self.end]).ok()?;
            let exponent: i32 = exponent.parse().ok()?;
            self.end = mark;
            write!(self, "e{:+03}", exponent).ok()?;
        } else {
            write!(self, "{}", number).ok()?;
            if !self.bytes[..self.end].contains(&b'.') {
                self.write_str(".0").ok()?;
            }
        }
        Some(&self.bytes[..self.end])
    }

    fn uuid(&mut self, bytes: &[u8]) -> &[u8] {
        self.end = 0;
        for (index, byte) in bytes.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                self.bytes[self.end] = b'-';
                self.end += 1;
            }
            self.bytes[self.end] = HEX[usize::from(byte >> 4)];
            self.bytes[self.end + 1] = HEX[usize::from(byte & 15)];
            self.end += 2;
        }
        &self.bytes[..self.end]
    }
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
