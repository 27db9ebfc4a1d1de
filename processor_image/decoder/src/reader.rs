//! AMQP values: where each starts and ends. A value's size follows from its type alone.

#![forbid(unsafe_code)]

/// A value: its type, and its bytes without type and length.
#[derive(Clone, Copy)]
pub struct Value<'a> {
    pub code: u8,
    pub bytes: &'a [u8],
}

impl<'a> Value<'a> {
    /// How many items a list or a map claims to have, and their bytes.
    pub fn items(self) -> Option<(usize, Reader<'a>)> {
        let mut items = Reader::new(self.bytes);
        let count = match self.code {
            0x45 => 0,
            0xC0 | 0xC1 => items.size(1)?,
            0xD0 | 0xD1 => items.size(4)?,
            _ => return None,
        };
        Some((count, items))
    }

    /// The bits of a number, which is without a sign.
    pub fn bits(self) -> Option<u64> {
        Some(match *self.bytes {
            [] => 0,
            [a] => a.into(),
            [a, b] => u16::from_be_bytes([a, b]).into(),
            [a, b, c, d] => u32::from_be_bytes([a, b, c, d]).into(),
            [a, b, c, d, e, f, g, h] => u64::from_be_bytes([a, b, c, d, e, f, g, h]),
            _ => return None,
        })
    }
}

/// Reads values from the front of bytes; None if the bytes end too early.
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next byte.
    #[inline]
    pub fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    /// The next value, of any type but a described one.
    #[inline]
    pub fn value(&mut self) -> Option<Value<'a>> {
        let code = self.byte()?;
        let size = match code >> 4 {
            0x4 => 0,
            0x5 => 1,
            0x6 => 2,
            0x7 => 4,
            0x8 => 8,
            0x9 => 16,
            0xA | 0xC | 0xE => self.size(1)?,
            0xB | 0xD | 0xF => self.size(4)?,
            _ => return None,
        };
        let bytes = self.take(size)?;
        Some(Value { code, bytes })
    }

    #[inline]
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let taken = self.rest.get(..count)?;
        self.rest = &self.rest[count..];
        Some(taken)
    }

    /// A size or a count of one byte or four.
    #[inline]
    fn size(&mut self, width: usize) -> Option<usize> {
        match *self.take(width)? {
            [a] => Some(a.into()),
            [a, b, c, d] => usize::try_from(u32::from_be_bytes([a, b, c, d])).ok(),
            _ => None,
        }
    }
}
