//! Columns while they grow, and their memory as Arrow has it.

#![forbid(unsafe_code)]

use super::plan::{Storage, Type};

const ALIGNMENT: usize = 64; // of each region, as Arrow advises

/// The numbers of a column: values, nulls, and the bytes of its regions: bitmap (empty if no value is null), ends or
/// values, and bytes.
pub const NUMBERS: usize = 5;

/// A column, with those inside of it.
pub struct Builder {
    pub count: usize,
    valid: Vec<u8>,
    nulls: usize,
    pub data: Data,
}

pub enum Data {
    Boolean(Vec<u8>),
    Long(Vec<i64>),
    Double(Vec<f64>),
    Decimal(Vec<i128>),
    Date(Vec<i32>),
    Text(Vec<i32>, Vec<u8>),
    List(Vec<i32>, Box<Builder>),
    Map(Vec<i32>, Box<[Builder; 2]>),
    Struct(Vec<Builder>),
}

impl Builder {
    pub fn new(kind: &Type) -> Self {
        let data = match kind {
            Type::Leaf(leaf) => match leaf.storage {
                Storage::Text => return Builder::text(),
                Storage::Boolean => Data::Boolean(Vec::new()),
                Storage::Long => Data::Long(Vec::new()),
                Storage::Double => Data::Double(Vec::new()),
                Storage::Decimal => Data::Decimal(Vec::new()),
                Storage::Date => Data::Date(Vec::new()),
            },
            Type::Struct(fields) => Data::Struct(fields.iter().map(|(_, kind)| Builder::new(kind)).collect()),
            Type::Array { element, .. } => Data::List(vec![0], Box::new(Builder::new(element))),
            Type::Map { value, .. } => Data::Map(vec![0], Box::new([Builder::text(), Builder::new(value)])),
        };
        Builder { count: 0, valid: Vec::new(), nulls: 0, data }
    }

    pub fn text() -> Self {
        Builder { count: 0, valid: Vec::new(), nulls: 0, data: Data::Text(vec![0], Vec::new()) }
    }

    /// A value has been added to the data.
    #[inline]
    pub fn push_valid(&mut self) {
        push_bit(&mut self.valid, self.count, true);
        self.count += 1;
    }

    #[inline]
    pub fn push_null(&mut self) {
        match &mut self.data {
            Data::Boolean(bits) => push_bit(bits, self.count, false),
            Data::Long(values) => values.push(0),
            Data::Double(values) => values.push(0.0),
            Data::Decimal(values) => values.push(0),
            Data::Date(values) => values.push(0),
            Data::Text(ends, _) | Data::List(ends, _) | Data::Map(ends, _) => {
                ends.push(ends.last().copied().unwrap_or(0))
            }
            Data::Struct(fields) => fields.iter_mut().for_each(Builder::push_null),
        }
        push_bit(&mut self.valid, self.count, false);
        self.count += 1;
        self.nulls += 1;
    }

    /// Append a text; None if the column would exceed Arrow's maximum.
    pub fn push_text(&mut self, text: &[u8]) -> Option<()> {
        if let Data::Text(_, bytes) = &mut self.data {
            bytes.extend_from_slice(text);
        }
        self.end_text()
    }

    /// The bytes of a text have been added to the data.
    #[inline]
    pub fn end_text(&mut self) -> Option<()> {
        if let Data::Text(ends, bytes) = &mut self.data {
            ends.push(i32::try_from(bytes.len()).ok()?);
        }
        self.push_valid();
        Some(())
    }

    /// Remove all values behind the first ones.
    pub fn truncate(&mut self, count: usize) {
        match &mut self.data {
            Data::Boolean(bits) => cut_bits(bits, count),
            Data::Long(values) => values.truncate(count),
            Data::Double(values) => values.truncate(count),
            Data::Decimal(values) => values.truncate(count),
            Data::Date(values) => values.truncate(count),
            Data::Text(ends, bytes) => bytes.truncate(cut_ends(ends, count)),
            Data::List(ends, child) => child.truncate(cut_ends(ends, count)),
            Data::Map(ends, children) => {
                let end = cut_ends(ends, count);
                children.iter_mut().for_each(|child| child.truncate(end));
            }
            Data::Struct(fields) => fields.iter_mut().for_each(|field| field.truncate(count)),
        }
        for place in count..self.count {
            if self.valid[place / 8] >> (place % 8) & 1 == 0 {
                self.nulls -= 1;
            }
        }
        cut_bits(&mut self.valid, count);
        self.count = self.count.min(count);
    }

    /// The numbers of this column and of those inside of it.
    pub fn numbers(&self, out: &mut Vec<u64>) {
        let values = |count: usize, size: usize| (count * size, 0);
        let (first, second) = match &self.data {
            Data::Boolean(bits) => (bits.len(), 0),
            Data::Long(found) => values(found.len(), 8),
            Data::Double(found) => values(found.len(), 8),
            Data::Decimal(found) => values(found.len(), 16),
            Data::Date(found) => values(found.len(), 4),
            Data::Text(ends, bytes) => (4 * ends.len(), bytes.len()),
            Data::List(ends, _) | Data::Map(ends, _) => (4 * ends.len(), 0),
            Data::Struct(_) => (0, 0),
        };
        let bitmap = if self.nulls > 0 { self.valid.len() } else { 0 };
        out.extend([self.count, self.nulls, bitmap, first, second].map(|number| number as u64));
        self.children().iter().for_each(|child| child.numbers(out));
    }

    /// Write the regions of this column and of those inside of it, each padded; None if the memory is too small.
    pub fn write(&self, memory: &mut Memory) -> Option<()> {
        memory.bytes(if self.nulls > 0 { &self.valid } else { &[] })?;
        match &self.data {
            Data::Boolean(bits) => memory.bytes(bits)?,
            Data::Long(found) => memory.values(found, |value| value.to_ne_bytes())?,
            Data::Double(found) => memory.values(found, |value| value.to_ne_bytes())?,
            Data::Decimal(found) => memory.values(found, |value| value.to_ne_bytes())?,
            Data::Date(found) => memory.values(found, |value| value.to_ne_bytes())?,
            Data::Text(ends, bytes) => {
                memory.values(ends, |end| end.to_ne_bytes())?;
                memory.bytes(bytes)?;
            }
            Data::List(ends, _) | Data::Map(ends, _) => memory.values(ends, |end| end.to_ne_bytes())?,
            Data::Struct(_) => {}
        }
        self.children().iter().try_for_each(|child| child.write(memory))
    }

    fn children(&self) -> &[Builder] {
        match &self.data {
            Data::List(_, child) => std::slice::from_ref(child),
            Data::Map(_, children) => &children[..],
            Data::Struct(fields) => fields,
            _ => &[],
        }
    }
}

/// Memory of the caller's that is filled from its start.
pub struct Memory<'m> {
    pub rest: &'m mut [u8],
}

impl Memory<'_> {
    fn take(&mut self, size: usize) -> Option<&mut [u8]> {
        let padded = padded(size);
        if padded > self.rest.len() {
            return None;
        }
        let (taken, rest) = std::mem::take(&mut self.rest).split_at_mut(padded);
        self.rest = rest;
        Some(&mut taken[..size])
    }

    fn bytes(&mut self, bytes: &[u8]) -> Option<()> {
        self.take(bytes.len())?.copy_from_slice(bytes);
        Some(())
    }

    fn values<T: Copy, const SIZE: usize>(&mut self, values: &[T], of: impl Fn(T) -> [u8; SIZE]) -> Option<()> {
        let region = self.take(values.len() * SIZE)?;
        region.chunks_exact_mut(SIZE).zip(values).for_each(|(place, &value)| place.copy_from_slice(&of(value)));
        Some(())
    }
}

/// The size of a region with its padding.
pub fn padded(size: usize) -> usize {
    (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT
}

#[inline]
pub fn push_bit(bits: &mut Vec<u8>, at: usize, bit: bool) {
    if at % 8 == 0 {
        bits.push(0);
    }
    if let Some(last) = bits.last_mut() {
        *last |= u8::from(bit) << (at % 8);
    }
}

fn cut_bits(bits: &mut Vec<u8>, count: usize) {
    bits.truncate((count + 7) / 8);
    if let (Some(last), 1..) = (bits.last_mut(), count % 8) {
        *last &= (1 << (count % 8)) - 1;
    }
}

/// The end of what is kept.
fn cut_ends(ends: &mut Vec<i32>, count: usize) -> usize {
    ends.truncate(count + 1);
    ends.last().map_or(0, |&end| end as usize)
}
