//! Numbers of JSON, exactly.

#![forbid(unsafe_code)]

use super::plan::Limits;

/// digits * 10^power.
pub struct Exact {
    digits: i128,
    power: i32,
}

impl Exact {
    /// None if the number has too many digits, or too large an exponent.
    #[inline]
    pub fn read(text: &[u8], limits: &Limits) -> Option<Self> {
        let (is_negative, text) = sign(text);
        let (mut low, mut count, mut fraction, mut at) = (0u64, 0usize, 0i32, 0);
        let mut whole = usize::MAX;
        let mut high = 0u128;
        while let Some(&byte) = text.get(at) {
            match byte {
                b'0'..=b'9' => {
                    count += 1;
                    if count <= 19 {
                        low = low * 10 + u64::from(byte - b'0');
                    } else if count <= limits.digits + 1 {
                        high = if count == 20 { low.into() } else { high };
                        high = high.checked_mul(10)?.checked_add((byte - b'0').into())?;
                    }
                }
                b'.' => whole = count,
                _ => break,
            }
            at += 1;
        }
        if whole != usize::MAX {
            fraction = i32::try_from(count - whole).ok()?;
        }
        let mut power = -fraction;
        if at < text.len() {
            power += exponent(text.get(at + 1..)?, limits)?;
            if count > limits.exponent_digits {
                return None;
            }
        } else if count - usize::from(text.first() == Some(&b'0')) > limits.digits {
            return None;
        }
        let found = i128::try_from(if count <= 19 { low.into() } else { high }).ok()?;
        Some(Exact { digits: if is_negative { -found } else { found }, power })
    }

    /// The number times 10^scale, if that is whole.
    #[inline]
    pub fn times(&self, scale: i32) -> Option<i128> {
        let power = self.power + scale;
        if power == 0 || self.digits == 0 {
            return Some(self.digits);
        }
        let factor = 10i128.checked_pow(power.unsigned_abs())?;
        if power > 0 {
            return self.digits.checked_mul(factor);
        }
        (self.digits % factor == 0).then_some(self.digits / factor)
    }
}

/// The digits of a number, without zeros at the end of the fraction; None if it has an exponent, or too many digits.
pub fn plain(text: &[u8], limits: &Limits, out: &mut Vec<u8>) -> Option<()> {
    let (is_negative, text) = sign(text);
    if text.iter().any(|byte| matches!(byte, b'e' | b'E')) {
        return None;
    }
    let whole = text.iter().position(|&byte| byte == b'.');
    let count = text.len() - usize::from(whole.is_some()) - usize::from(text.first() == Some(&b'0'));
    if count > limits.digits {
        return None;
    }
    let digits = match whole {
        Some(whole) => trimmed(text, whole),
        None => text,
    };
    if is_negative && digits != b"0" {
        out.push(b'-');
    }
    out.extend_from_slice(digits);
    Some(())
}

/// A text that is a number without an exponent, times 10^scale, if that is whole.
pub fn of_text(text: &[u8], scale: i32) -> Option<i128> {
    let (is_negative, text) = sign(text);
    if super::document::number(text, 0)? != text.len() || text.iter().any(|byte| matches!(byte, b'e' | b'E' | b'-')) {
        return None;
    }
    let digits = match text.iter().position(|&byte| byte == b'.') {
        Some(whole) => trimmed(text, whole),
        None => text,
    };
    let (mut found, mut left, mut is_fraction) = (0i128, scale, false);
    for &byte in digits {
        if byte == b'.' {
            is_fraction = true;
            continue;
        }
        if is_fraction {
            left = left.checked_sub(1).filter(|&left| left >= 0)?;
        }
        found = found.checked_mul(10)?.checked_add((byte - b'0').into())?;
    }
    found = found.checked_mul(10i128.checked_pow(left.unsigned_abs())?)?;
    Some(if is_negative { -found } else { found })
}

/// The nearest double, if that is finite; 0 for -0.
#[inline]
pub fn nearest(text: &[u8]) -> Option<f64> {
    let found: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    found.is_finite().then_some(if found == 0.0 { 0.0 } else { found })
}

fn sign(text: &[u8]) -> (bool, &[u8]) {
    match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        _ => (false, text),
    }
}

fn exponent(text: &[u8], limits: &Limits) -> Option<i32> {
    let (is_negative, digits) = match text.split_first()? {
        (b'-', rest) => (true, rest),
        (b'+', rest) => (false, rest),
        _ => (false, text),
    };
    if digits.len() > limits.exponent_length {
        return None;
    }
    let found = digits.iter().fold(0, |found, &byte| found * 10 + i32::from(byte.wrapping_sub(b'0')));
    Some(if is_negative { -found } else { found })
}

/// A number with a point at `whole`, without zeros at its end.
fn trimmed(text: &[u8], whole: usize) -> &[u8] {
    let end = text.iter().rposition(|&byte| byte != b'0').unwrap_or(whole);
    &text[..if end == whole { whole } else { end + 1 }]
}
