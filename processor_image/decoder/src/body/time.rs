//! Days and times as RFC 3339 writes them.

#![forbid(unsafe_code)]

const OFFSET_MAX: i64 = 18 * 60; // minutes
const TRUNCATED_MAX: usize = 12; // digits of a second

/// Days since 1970.
#[inline]
pub fn day(text: &[u8]) -> Option<i32> {
    if text.len() != 10 {
        return None;
    }
    let (year, month, day) = (two(text, 0)? * 100 + two(text, 2)?, two(text, 5)?, two(text, 8)?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if text[4] != b'-' || text[7] != b'-' || year == 0 || day == 0 || day > days {
        return None;
    }
    // Days of years that start in March, so that a leap day is the last one.
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    i32::try_from(year * 365 + year / 4 - year / 100 + year / 400 + of_year - 719_468).ok()
}

/// Microseconds since 1970, UTC; digits behind the sixth are zeros, or cut.
#[inline]
pub fn micros(text: &[u8], cut: bool) -> Option<i64> {
    let day = i64::from(day(text.get(..10)?)?);
    let clock = text.get(10..19)?;
    if !matches!(clock[0], b'T' | b' ') || clock[3] != b':' || clock[6] != b':' {
        return None;
    }
    let (hour, minute, second) = (two(clock, 1)?, two(clock, 4)?, two(clock, 7)?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let mut rest = &text[19..];
    let mut micros = 0;
    if rest.first() == Some(&b'.') {
        let count = rest[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let digits = &rest[1..=count];
        let fits = if cut { count <= TRUNCATED_MAX } else { digits.iter().skip(6).all(|&byte| byte == b'0') };
        if count == 0 || !fits {
            return None;
        }
        for place in 0..6 {
            micros = micros * 10 + i64::from(digits.get(place).map_or(0, |byte| byte - b'0'));
        }
        rest = &rest[count + 1..];
    }
    let offset = match rest {
        [] | [b'Z'] => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let (hours, minutes) = (two(rest, 1)?, two(rest, 4)?);
            let offset = hours * 60 + minutes;
            if minutes > 59 || offset > OFFSET_MAX {
                return None;
            }
            if *sign == b'+' {
                offset
            } else {
                -offset
            }
        }
        _ => return None,
    };
    Some((((day * 24 + hour) * 60 + minute - offset) * 60 + second) * 1_000_000 + micros)
}

#[inline]
fn two(text: &[u8], at: usize) -> Option<i64> {
    let (tens, ones) = (text.get(at)?.wrapping_sub(b'0'), text.get(at + 1)?.wrapping_sub(b'0'));
    (tens < 10 && ones < 10).then_some(i64::from(tens) * 10 + i64::from(ones))
}
