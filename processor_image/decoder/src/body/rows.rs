//! Bodies to columns, one after the other: a body changes its own row alone.

#![forbid(unsafe_code)]

use super::build::{push_bit, Builder, Data};
use super::canonical::Canonical;
use super::document::{number, space, Fault, Found, Place, Scanner};
use super::number::{nearest, of_text, plain, Exact};
use super::plan::{Column, Kind, Leaf, Limits, Plan, Rule, Type};
use super::{strings, time};
use crate::batch::Failure;

/// Why a value does not become one of the column's type.
enum Cause {
    Misfit,
    TooMany,
    TooLarge, // for Arrow
}

/// The columns of all bodies; None is no body.
pub fn read<'a>(
    plan: &Plan,
    bodies: impl Iterator<Item = Result<Option<&'a [u8]>, Failure>>,
) -> Result<Vec<Builder>, Failure> {
    let mut columns: Vec<Builder> = plan.columns.iter().map(|column| Builder::new(&column.kind)).collect();
    let mut errors = Builder::text();
    let mut scanner = Scanner::new(plan);
    let mut found = vec![Found::Absent; plan.columns.len()];
    let mut row = Row { limits: &plan.limits, text: &[], left: 0, room: Vec::new(), canonical: Canonical::default() };
    let mut causes: Vec<&[u8]> = Vec::new();
    for body in bodies {
        let body = body?;
        found.fill(Found::Absent);
        let scanned = match body {
            None => Ok(&[][..]),
            Some(body) => std::str::from_utf8(body)
                .map_err(|_| Fault::NoUtf8)
                .and_then(|_| scanner.scan(body, &mut found))
                .map(|_| body),
        };
        match scanned {
            Err(fault) => {
                columns.iter_mut().for_each(Builder::push_null);
                errors.push_text(plan.faults[fault as usize]).ok_or(Failure::TooLarge)?;
            }
            Ok(text) => {
                row.text = text;
                row.left = (plan.limits.values_per_byte * text.len() + plan.limits.values_more) as u64;
                causes.clear();
                for ((column, builder), &found) in plan.columns.iter().zip(&mut columns).zip(&found) {
                    if let Some(cause) = row.column(column, builder, found)? {
                        causes.push(cause);
                    }
                }
                if causes.is_empty() {
                    errors.push_null();
                } else {
                    errors.push_text(&joined(&causes, plan)).ok_or(Failure::TooLarge)?;
                }
            }
        }
    }
    columns.push(errors);
    Ok(columns)
}

/// The first errors, and the number of the others.
fn joined(causes: &[&[u8]], plan: &Plan) -> Vec<u8> {
    let mut text = causes[0].to_vec();
    for (index, cause) in causes.iter().enumerate().skip(1) {
        if text.len() + cause.len() + 2 + plan.more_bytes > plan.limits.error_bytes {
            text.extend_from_slice(format!("; and {} more", causes.len() - index).as_bytes());
            break;
        }
        text.extend_from_slice(b"; ");
        text.extend_from_slice(cause);
    }
    text
}

/// One body.
struct Row<'a> {
    limits: &'a Limits,
    text: &'a [u8],
    left: u64, // values that its arrays and maps may still have
    room: Vec<u8>,
    canonical: Canonical,
}

impl<'a> Row<'a> {
    /// Append the value of a column; returns the error if there is one.
    #[inline]
    fn column<'p>(
        &mut self,
        column: &'p Column,
        builder: &mut Builder,
        found: Found,
    ) -> Result<Option<&'p [u8]>, Failure> {
        let place = match found {
            Found::Value(place) => place,
            Found::Absent | Found::Blocked(_) => {
                builder.push_null();
                return Ok(match found {
                    Found::Blocked(kind) => Some(column.texts.blocked[kind as usize]),
                    _ => column.required.then_some(column.texts.absent),
                });
            }
        };
        let (count, left) = (builder.count, self.left);
        let made = match &column.kind {
            Type::Leaf(leaf) => self.leaf(leaf, builder, place),
            Type::Array { .. } if place.kind != Kind::Array => Err(Cause::Misfit),
            Type::Struct(_) | Type::Map { .. } if place.kind != Kind::Object => Err(Cause::Misfit),
            kind => {
                let mut at = place.start;
                self.value(kind, builder, &mut at)
            }
        };
        let cause = match made {
            Ok(()) => return Ok(None),
            Err(Cause::Misfit) => column.texts.misfits[place.kind as usize],
            Err(Cause::TooMany) => column.texts.too_many,
            Err(Cause::TooLarge) => return Err(Failure::TooLarge),
        };
        self.left = left;
        builder.truncate(count);
        builder.push_null();
        Ok(Some(cause))
    }

    /// Append the value at a place, which may be null, and move behind it.
    fn value(&mut self, kind: &Type, builder: &mut Builder, at: &mut usize) -> Result<(), Cause> {
        if self.byte(*at) == b'n' {
            *at += 4;
            builder.push_null();
            return Ok(());
        }
        match (kind, &mut builder.data) {
            (Type::Leaf(leaf), _) => {
                let place = self.place(at)?;
                return self.leaf(leaf, builder, place);
            }
            (Type::Struct(fields), Data::Struct(builders)) => {
                let count = builder.count;
                let text = self.text;
                let mut next = 0;
                self.members(at, |row, name, at| {
                    let matches = |place: &usize| fields.get(*place).map_or(false, |field| row.is_name(name, field.0));
                    let expected = Some(next).filter(matches).or_else(|| (0..fields.len()).find(matches));
                    match expected {
                        Some(place) => {
                            next = place + 1;
                            row.value(&fields[place].1, &mut builders[place], at)
                        }
                        None => skip(text, at),
                    }
                })?;
                for builder in builders {
                    if builder.count == count {
                        builder.push_null();
                    }
                }
            }
            (Type::Array { element, width }, Data::List(ends, child)) => {
                self.elements(at, |row, at| {
                    row.take(*width)?;
                    row.value(element, child, at)
                })?;
                ends.push(i32::try_from(child.count).map_err(|_| Cause::TooLarge)?);
            }
            (Type::Map { value, width }, Data::Map(ends, children)) => {
                let [names, values] = &mut **children;
                self.members(at, |row, name, at| {
                    row.take(*width)?;
                    row.characters(name, names)?;
                    row.value(value, values, at)
                })?;
                ends.push(i32::try_from(names.count).map_err(|_| Cause::TooLarge)?);
            }
            _ => return Err(Cause::Misfit), // no such columns are made
        }
        builder.push_valid();
        Ok(())
    }

    /// Give each member of the object at a place to `each`, which moves behind its value.
    fn members(
        &mut self,
        at: &mut usize,
        mut each: impl FnMut(&mut Self, Place, &mut usize) -> Result<(), Cause>,
    ) -> Result<(), Cause> {
        self.parts(at, b'{', |row, at| {
            let name = row.place(at)?;
            *at = space(row.text, space(row.text, *at) + 1); // behind the colon
            each(row, name, at)
        })
    }

    /// Give each element of the array at a place to `each`, which moves behind it.
    fn elements(
        &mut self,
        at: &mut usize,
        each: impl FnMut(&mut Self, &mut usize) -> Result<(), Cause>,
    ) -> Result<(), Cause> {
        self.parts(at, b'[', each)
    }

    /// Give each part of the object or array at a place to `each`.
    #[inline]
    fn parts(
        &mut self,
        at: &mut usize,
        first: u8,
        mut each: impl FnMut(&mut Self, &mut usize) -> Result<(), Cause>,
    ) -> Result<(), Cause> {
        if self.byte(*at) != first {
            return Err(Cause::Misfit);
        }
        *at = space(self.text, *at + 1);
        while self.byte(*at) != first + 2 {
            each(self, at)?;
            *at = space(self.text, *at);
            if self.byte(*at) == b',' {
                *at = space(self.text, *at + 1);
            }
        }
        *at += 1;
        Ok(())
    }

    fn take(&mut self, count: usize) -> Result<(), Cause> {
        self.left = self.left.checked_sub(count as u64).ok_or(Cause::TooMany)?;
        Ok(())
    }

    #[inline]
    fn byte(&self, at: usize) -> u8 {
        self.text.get(at).copied().unwrap_or_default()
    }

    /// The value at a place, which is not null; moves behind it.
    fn place(&self, at: &mut usize) -> Result<Place, Cause> {
        let start = *at;
        let mut place = Place { kind: Kind::Boolean, start, end: 0, escaped: false };
        match self.byte(start) {
            b'"' => {
                let string = strings::end(self.text, start + 1).ok_or(Cause::Misfit)?;
                *at = string.end + 1;
                return Ok(Place { kind: Kind::Text, start: start + 1, end: string.end, escaped: string.escaped });
            }
            b'{' => place.kind = Kind::Object,
            b'[' => place.kind = Kind::Array,
            b't' | b'f' => {}
            _ => place.kind = Kind::Number,
        }
        skip(self.text, at)?;
        place.end = *at;
        Ok(place)
    }

    fn bytes(&self, place: Place) -> &'a [u8] {
        self.text.get(place.start..place.end).unwrap_or_default()
    }

    /// Whether a name is this one.
    fn is_name(&self, name: Place, wanted: &[u8]) -> bool {
        if !name.escaped {
            return self.bytes(name) == wanted;
        }
        let mut own = Vec::new();
        strings::unescape(self.bytes(name), &mut own);
        own == wanted
    }

    /// Append the characters of a string.
    #[inline]
    fn characters(&mut self, place: Place, builder: &mut Builder) -> Result<(), Cause> {
        let content = self.bytes(place);
        if let Data::Text(_, bytes) = &mut builder.data {
            if place.escaped {
                strings::unescape(content, bytes);
            } else {
                bytes.extend_from_slice(content);
            }
        }
        builder.end_text().ok_or(Cause::TooLarge)
    }

    /// Append a value by the rule for its kind.
    #[inline]
    fn leaf(&mut self, leaf: &Leaf, builder: &mut Builder, place: Place) -> Result<(), Cause> {
        let rule = leaf.rules[place.kind as usize].ok_or(Cause::Misfit)?;
        let limits = self.limits;
        if let Rule::Characters = rule {
            return self.characters(place, builder);
        }
        let mut bytes = self.bytes(place);
        let room; // for a string with escapes
        if place.escaped {
            let mut characters = std::mem::take(&mut self.room);
            characters.clear();
            strings::unescape(bytes, &mut characters);
            room = characters;
            bytes = &[];
        } else {
            room = Vec::new();
        }
        let content = if place.escaped { &room[..] } else { bytes };
        let made = match (rule, &mut builder.data) {
            (Rule::Digits, Data::Text(_, out)) => plain(content, limits, out),
            (Rule::Word, Data::Text(_, out)) => {
                out.extend_from_slice(content);
                Some(())
            }
            (Rule::Text, Data::Text(_, out)) => self.canonical.write(content, limits, out),
            (Rule::Same, Data::Boolean(bits)) => {
                push_bit(bits, builder.count, content == b"true");
                Some(())
            }
            (Rule::Whole, Data::Long(values)) => Exact::read(content, limits)
                .and_then(|number| i64::try_from(number.times(0)?).ok())
                .map(|number| values.push(number)),
            (Rule::Decimal, Data::Decimal(values)) => Exact::read(content, limits)
                .and_then(|number| number.times(leaf.scale))
                .filter(|number| number.unsigned_abs() < 10u128.pow(leaf.precision))
                .map(|number| values.push(number)),
            (Rule::DecimalText, Data::Decimal(values)) => of_text(content, leaf.scale)
                .filter(|number| number.unsigned_abs() < 10u128.pow(leaf.precision))
                .map(|number| values.push(number)),
            (Rule::Nearest, Data::Double(values)) => nearest(content).map(|number| values.push(number)),
            (Rule::Date, Data::Date(values)) => time::day(content).map(|day| values.push(day)),
            (Rule::Instant, Data::Long(values)) => {
                self.within(time::micros(content, false)).map(|each| values.push(each))
            }
            (Rule::Truncated, Data::Long(values)) => {
                self.within(time::micros(content, true)).map(|each| values.push(each))
            }
            (Rule::Epoch, Data::Long(values)) => {
                let number =
                    Exact::read(content, limits).and_then(|number| i64::try_from(number.times(leaf.scale)?).ok());
                self.within(number).map(|each| values.push(each))
            }
            _ => None, // no such columns are made
        };
        if place.escaped {
            self.room = room;
        }
        made.ok_or(Cause::Misfit)?;
        match builder.data {
            Data::Text(..) => builder.end_text().ok_or(Cause::TooLarge),
            _ => {
                builder.push_valid();
                Ok(())
            }
        }
    }

    fn within(&self, micros: Option<i64>) -> Option<i64> {
        micros.filter(|micros| (self.limits.first_micros..=self.limits.last_micros).contains(micros))
    }
}

/// Move behind a value of a valid document.
fn skip(text: &[u8], at: &mut usize) -> Result<(), Cause> {
    let mut depth = 0usize;
    loop {
        *at = space(text, *at);
        match text.get(*at).ok_or(Cause::Misfit)? {
            b'"' => *at = strings::end(text, *at + 1).ok_or(Cause::Misfit)?.end + 1,
            b'{' | b'[' => {
                depth += 1;
                *at += 1;
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                *at += 1;
            }
            b'-' | b'0'..=b'9' => *at = number(text, *at).ok_or(Cause::Misfit)?,
            b',' | b':' => {
                *at += 1;
                continue;
            }
            b'f' => *at += 5,
            _ => *at += 4,
        }
        if depth == 0 {
            return Ok(());
        }
    }
}
