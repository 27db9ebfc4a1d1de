//! Any bodies: the columns are consistent, and a body has the same values among others as alone.
//!
//! Input: bodies with FE FF between them; an empty one is null.

#![no_main]

use std::ptr::null_mut;

use libfuzzer_sys::fuzz_target;

extern crate eventconsumer_decoder as _;

const NUMBERS: usize = 5;
const ERROR_BYTES: usize = 60;
const WIDTH: u32 = 2; // how often each element counts

#[repr(C)]
struct RawBodies {
    data: *const u8,
    size: usize,
    ends: *const i32,
    rows: usize,
    valid: *const u8,
    first: usize,
}

enum Parsed {}

extern "C" {
    fn body_parse(
        plan: *const u8,
        plan_size: usize,
        raw: *const RawBodies,
        numbers: *mut u64,
        count: usize,
        parsed: *mut *mut Parsed,
    ) -> i64;
    fn body_write(parsed: *const Parsed, memory: *mut u8, size: usize) -> i64;
    fn body_release(parsed: *mut Parsed) -> i64;
}

/// A type: its numbers in the plan, or the types inside of it.
enum Type {
    Leaf { storage: u32, precision: u32, scale: u32, rules: [u32; 5] },
    Struct(Vec<(&'static str, Type)>),
    Array(Box<Type>),
    Map(Box<Type>),
}

const TEXT: Type = Type::Leaf { storage: 0, precision: 0, scale: 0, rules: [1, 2, 3, 4, 4] };
const BOOLEAN: Type = Type::Leaf { storage: 1, precision: 0, scale: 0, rules: [0, 0, 5, 0, 0] };
const LONG: Type = Type::Leaf { storage: 2, precision: 0, scale: 0, rules: [0, 6, 0, 0, 0] };
const DOUBLE: Type = Type::Leaf { storage: 3, precision: 0, scale: 0, rules: [0, 9, 0, 0, 0] };
const DECIMAL: Type = Type::Leaf { storage: 4, precision: 10, scale: 2, rules: [8, 7, 0, 0, 0] };
const DATE: Type = Type::Leaf { storage: 5, precision: 0, scale: 0, rules: [10, 0, 0, 0, 0] };
const INSTANT: Type = Type::Leaf { storage: 2, precision: 0, scale: 0, rules: [11, 0, 0, 0, 0] };
const CUT: Type = Type::Leaf { storage: 2, precision: 0, scale: 0, rules: [12, 0, 0, 0, 0] };
const MILLIS: Type = Type::Leaf { storage: 2, precision: 0, scale: 3, rules: [0, 13, 0, 0, 0] };

fn columns() -> Vec<(&'static [&'static str], Type)> {
    let item = || Type::Struct(vec![("n", LONG), ("t", INSTANT), ("b", BOOLEAN)]);
    vec![
        (&["s"], TEXT),
        (&["b"], BOOLEAN),
        (&["n"], LONG),
        (&["d"], DOUBLE),
        (&["m"], DECIMAL),
        (&["y"], DATE),
        (&["t"], INSTANT),
        (&["c"], CUT),
        (&["e"], MILLIS),
        (&["p"], TEXT),
        (&["p", "q"], TEXT),
        (&["p", "q"], DECIMAL),
        (&["i"], item()),
        (&["l"], Type::Array(Box::new(item()))),
        (&["l"], Type::Array(Box::new(Type::Array(Box::new(TEXT))))),
        (&["o"], Type::Map(Box::new(Type::Struct(vec![("l", Type::Array(Box::new(DATE))), ("é", TEXT)])))),
    ]
}

fn plan(columns: &[(&[&str], Type)]) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, &[38, 15, 2, 1000, 1000, 50_000, 8, 16, ERROR_BYTES as u32]);
    for micros in [-62_135_596_800_000_000i64, 253_402_300_799_999_999] {
        out.extend(micros.to_le_bytes());
    }
    put(&mut out, &[24]);
    (0..5).for_each(|fault| text(&mut out, ["utf8", "document", "pair", "twice", "object"][fault]));
    put(&mut out, &[columns.len() as u32]);
    for (number, (path, kind)) in columns.iter().enumerate() {
        put(&mut out, &[u32::from(number == 2), path.len() as u32]);
        path.iter().for_each(|name| text(&mut out, name));
        (0..12).for_each(|cause| text(&mut out, ["é misfit", "absent"][usize::from(cause == 5)]));
        describe(&mut out, kind);
    }
    out
}

fn describe(out: &mut Vec<u8>, kind: &Type) {
    match kind {
        Type::Leaf { storage, precision, scale, rules } => {
            put(out, &[0, *storage, *precision, *scale]);
            put(out, rules);
        }
        Type::Struct(fields) => {
            put(out, &[1, fields.len() as u32]);
            for (name, kind) in fields {
                text(out, name);
                describe(out, kind);
            }
        }
        Type::Array(kind) => {
            put(out, &[2, WIDTH]);
            describe(out, kind);
        }
        Type::Map(kind) => {
            put(out, &[3, WIDTH]);
            describe(out, kind);
        }
    }
}

fn put(out: &mut Vec<u8>, numbers: &[u32]) {
    numbers.iter().for_each(|number| out.extend(number.to_le_bytes()));
}

fn text(out: &mut Vec<u8>, text: &str) {
    put(out, &[text.len() as u32]);
    out.extend(text.as_bytes());
}

/// How many columns are in a type, with itself.
fn count(kind: &Type) -> usize {
    1 + match kind {
        Type::Leaf { .. } => 0,
        Type::Struct(fields) => fields.iter().map(|(_, kind)| count(kind)).sum(),
        Type::Array(kind) => count(kind),
        Type::Map(kind) => 1 + count(kind),
    }
}

/// Columns, read as Arrow reads them; all that it does not check is checked.
struct Columns {
    numbers: Vec<u64>,
    memory: Box<[u8]>,
    next: usize,
    end: usize,
}

impl Columns {
    /// The values of the next column, each with its bytes; null is empty.
    fn next(&mut self, kind: &Type) -> Vec<Vec<u8>> {
        let numbers: Vec<usize> = self.numbers[self.next..][..NUMBERS].iter().map(|&number| number as usize).collect();
        self.next += NUMBERS;
        let (rows, nulls) = (numbers[0], numbers[1]);
        let [bitmap, first, second] = [2, 3, 4].map(|number| {
            let region = self.memory[self.end..self.end + numbers[number]].to_vec();
            self.end += (numbers[number] + 63) / 64 * 64;
            region
        });
        let bit = |bits: &[u8], row: usize| bits[row / 8] >> (row % 8) & 1 == 1;
        let is_valid = |row: usize| nulls == 0 || bit(&bitmap, row);
        assert!(nulls > 0 || bitmap.is_empty());
        assert_eq!((0..rows).filter(|&row| !is_valid(row)).count(), nulls);
        let ends = |last: usize| {
            let ends: Vec<usize> =
                first.chunks(4).map(|end| i32::from_ne_bytes(end.try_into().unwrap()).try_into().unwrap()).collect();
            assert!(ends.len() == rows + 1 && ends[0] == 0 && ends[rows] == last);
            assert!(ends.windows(2).all(|two| two[0] <= two[1]));
            ends
        };
        let values: Vec<Vec<u8>> = match kind {
            Type::Leaf { storage: 0, .. } => {
                let ends = ends(second.len());
                let texts: Vec<_> = ends.windows(2).map(|two| second[two[0]..two[1]].to_vec()).collect();
                assert!(texts.iter().all(|text| std::str::from_utf8(text).is_ok()));
                texts
            }
            Type::Leaf { storage: 1, .. } => (0..rows).map(|row| vec![bit(&first, row).into()]).collect(),
            Type::Leaf { storage, .. } => {
                let size = [0, 0, 8, 8, 16, 4][*storage as usize];
                assert_eq!(first.len(), rows * size);
                first.chunks(size).map(<[u8]>::to_vec).collect()
            }
            Type::Struct(fields) => {
                let fields: Vec<_> = fields.iter().map(|(_, kind)| self.next(kind)).collect();
                assert!(fields.iter().all(|field| field.len() == rows));
                (0..rows).map(|row| joined(fields.iter().map(|field| &field[row]))).collect()
            }
            Type::Array(kind) => {
                let elements = self.next(kind);
                ends(elements.len()).windows(2).map(|two| joined(elements[two[0]..two[1]].iter())).collect()
            }
            Type::Map(kind) => {
                let (names, values) = (self.next(&TEXT), self.next(kind));
                assert_eq!(names.len(), values.len());
                let entries: Vec<_> =
                    names.iter().zip(&values).map(|(name, value)| joined([name, value].into_iter())).collect();
                ends(entries.len()).windows(2).map(|two| joined(entries[two[0]..two[1]].iter())).collect()
            }
        };
        assert_eq!(values.len(), rows);
        (0..rows).map(|row| if is_valid(row) { joined([&values[row]].into_iter()) } else { Vec::new() }).collect()
    }
}

/// Values as one that tells where each of them ends.
fn joined<'a>(values: impl Iterator<Item = &'a Vec<u8>>) -> Vec<u8> {
    values.flat_map(|value| [&(value.len() as u32).to_le_bytes()[..], value].concat()).collect()
}

/// The values of bodies, by column.
fn parsed(bodies: &[&[u8]], columns: &[(&[&str], Type)], plan: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let (mut data, mut ends, mut valid) = (Vec::new(), vec![0i32], vec![0u8; bodies.len() / 8 + 1]);
    for (row, body) in bodies.iter().enumerate() {
        data.extend_from_slice(body);
        ends.push(data.len() as i32);
        valid[row / 8] |= u8::from(!body.is_empty()) << (row % 8);
    }
    let [data, valid, plan] = [&data, &valid, plan].map(Box::<[u8]>::from); // of exactly these sizes
    let ends = ends.into_boxed_slice();
    let raw = RawBodies {
        data: data.as_ptr(),
        size: data.len(),
        ends: ends.as_ptr(),
        rows: bodies.len(),
        valid: valid.as_ptr(),
        first: 0,
    };
    let mut numbers = vec![0; NUMBERS * (1 + columns.iter().map(|(_, kind)| count(kind)).sum::<usize>())];
    let mut made = null_mut();
    // SAFETY: the pointers lead to as many items as is said.
    let size = unsafe { body_parse(plan.as_ptr(), plan.len(), &raw, numbers.as_mut_ptr(), numbers.len(), &mut made) };
    assert!(size >= 0);
    let mut memory = vec![0xAA; size as usize].into_boxed_slice();
    // SAFETY: likewise.
    unsafe {
        assert_eq!(body_write(made, memory.as_mut_ptr(), memory.len()), 0);
        assert_eq!(body_write(made, memory.as_mut_ptr(), memory.len() - 1), -4);
        assert_eq!(body_release(made), 0);
    }
    let mut found = Columns { numbers, memory, next: 0, end: 0 };
    let mut values: Vec<_> = columns.iter().map(|(_, kind)| found.next(kind)).collect();
    values.push(found.next(&TEXT));
    assert_eq!(found.end, size as usize);
    assert!(values.iter().all(|column| column.len() == bodies.len()));
    assert!(values.last().unwrap().iter().all(|error| error.len() <= 4 + ERROR_BYTES));
    values
}

fuzz_target!(|input: &[u8]| {
    let columns = columns();
    let plan = plan(&columns);
    let mut bodies = Vec::new();
    let mut start = 0;
    for (at, two) in input.windows(2).enumerate() {
        if two == [0xFE, 0xFF] {
            bodies.push(&input[start..at.max(start)]);
            start = at + 2;
        }
    }
    bodies.push(&input[start.min(input.len())..]);
    let together = parsed(&bodies, &columns, &plan);
    for (row, body) in bodies.iter().enumerate() {
        let alone = parsed(&[body], &columns, &plan);
        assert!(together.iter().zip(&alone).all(|(all, one)| all[row] == one[0]));
    }
});
