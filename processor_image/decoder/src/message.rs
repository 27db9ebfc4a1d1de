//! One message to the columns. Whatever a publisher hardly sends does not fit, and is None: other code knows all of it.

#![forbid(unsafe_code)]

use crate::columns::{Sink, BODY, CONTENT_TYPE, CORRELATION_ID, KEY, MESSAGE_ID, OFFSET, PROPERTIES, SYSTEM};
use crate::reader::{Reader, Value};
use crate::text::{self, Room};

const MOST_ENTRIES: usize = 64; // of a map: each name is compared with all before it
const NULL: u8 = 0x40;

/// The fields of the properties section: a column of their own, or an entry's name.
enum Field {
    Column(usize),
    Entry(&'static [u8]),
}

/// The sections' names, which may stand for their codes from 0x70 on.
const SECTIONS: [&[u8]; 9] = [
    b"amqp:header:list",
    b"amqp:delivery-annotations:map",
    b"amqp:message-annotations:map",
    b"amqp:properties:list",
    b"amqp:application-properties:map",
    b"amqp:data:binary",
    b"amqp:amqp-sequence:list",
    b"amqp:amqp-value:*",
    b"amqp:footer:map",
];

const FIELDS: [Field; 13] = [
    Field::Column(MESSAGE_ID),
    Field::Entry(b"user_id"),
    Field::Entry(b"to"),
    Field::Entry(b"subject"),
    Field::Entry(b"reply_to"),
    Field::Column(CORRELATION_ID),
    Field::Column(CONTENT_TYPE),
    Field::Entry(b"content_encoding"),
    Field::Entry(b"absolute_expiry_time"),
    Field::Entry(b"creation_time"),
    Field::Entry(b"group_id"),
    Field::Entry(b"group_sequence"),
    Field::Entry(b"reply_to_group_id"),
];

/// Pass all parts of a message to `sink`; None if it is not supported, and the sink may have received a part of it.
pub fn read<'a, S: Sink<'a>>(data: &'a [u8], sink: &mut S) -> Option<()> {
    let [_, _, own, fields, properties, body, _, _, _] = sections(data)?;
    match body {
        None => sink.text(BODY, None)?,
        Some(body) if matches!(body.code, 0xA0 | 0xB0) => sink.text(BODY, Some(body.bytes))?,
        Some(_) => return None,
    }
    let (number, time) = annotations(own?, sink)?;
    bare(fields, sink)?; // its entries come behind the annotations', wherever it is
    if let Some(map) = properties {
        entries(map, sink, |sink, name, value| entry(sink, PROPERTIES, name, value))?;
    }
    sink.end(number, time)
}

/// The values of the sections, by their codes from 0x70 on.
fn sections(data: &[u8]) -> Option<[Option<Value<'_>>; 9]> {
    let mut found = [None; 9];
    let mut reader = Reader::new(data);
    while !reader.is_empty() {
        if reader.byte()? != 0 {
            return None;
        }
        let descriptor = reader.value()?;
        let section = match descriptor.code {
            0x53 | 0x80 => descriptor.bits()?,
            0xA3 | 0xB3 => 0x70 + SECTIONS.iter().position(|&name| name == descriptor.bytes)? as u64,
            _ => return None,
        };
        if !matches!(section, 0x70..=0x75 | 0x78) {
            return None;
        }
        let place = &mut found[section as usize - 0x70];
        if place.is_some() {
            return None;
        }
        *place = Some(reader.value()?);
    }
    Some(found)
}

/// The message annotations; returns the sequence number and the time.
fn annotations<'a, S: Sink<'a>>(map: Value<'a>, sink: &mut S) -> Option<(i64, i64)> {
    let (mut number, mut offset, mut time, mut key) = (None, None, None, None);
    entries(map, sink, |sink, name, value| {
        match name {
            b"x-opt-sequence-number" if matches!(value.code, 0x54 | 0x55 | 0x71 | 0x81) => {
                number = text::signed(value);
            }
            b"x-opt-offset" if text::is_text(value) => offset = Some(value.bytes),
            b"x-opt-enqueued-time" if value.code == 0x83 => time = text::signed(value),
            b"x-opt-partition-key" if text::is_text(value) => key = Some(value.bytes),
            b"x-opt-sequence-number" | b"x-opt-offset" | b"x-opt-enqueued-time" | b"x-opt-partition-key" => {
                return None
            }
            _ => entry(sink, SYSTEM, name, value)?,
        }
        Some(())
    })?;
    sink.text(OFFSET, Some(offset?))?;
    sink.text(KEY, key)?;
    Some((number?, time?))
}

/// The properties section, which may be missing.
fn bare<'a, S: Sink<'a>>(list: Option<Value<'a>>, sink: &mut S) -> Option<()> {
    let (count, mut items) = match list {
        None => (0, Reader::new(&[])),
        Some(list) if matches!(list.code, 0x45 | 0xC0 | 0xD0) => list.items()?,
        Some(_) => return None,
    };
    if count > FIELDS.len() {
        return None;
    }
    for (index, field) in FIELDS.iter().enumerate() {
        let value = if index < count { Some(items.value()?) } else { None };
        let value = value.filter(|value| value.code != NULL);
        match (field, value) {
            (Field::Column(column), None) => sink.text(*column, None)?,
            (Field::Column(column), Some(value)) => {
                if matches!(value.code, 0x41 | 0x42 | 0x56 | 0x72 | 0x82) {
                    return None; // no id and no type of content
                }
                sink.text(*column, Some(text::of(value, &mut Room::new())?.0))?;
            }
            (Field::Entry(name), Some(value)) => {
                sink.name(name)?; // an annotation may have this name
                entry(sink, SYSTEM, name, value)?
            }
            (Field::Entry(_), None) => {}
        }
    }
    items.is_empty().then_some(())
}

/// Give each entry of a map to `each`.
fn entries<'a, S: Sink<'a>>(
    map: Value<'a>,
    sink: &mut S,
    mut each: impl FnMut(&mut S, &'a [u8], Value<'a>) -> Option<()>,
) -> Option<()> {
    if !matches!(map.code, 0xC1 | 0xD1) {
        return None;
    }
    let (count, mut items) = map.items()?;
    if count % 2 != 0 || count > 2 * MOST_ENTRIES {
        return None;
    }
    sink.names();
    for _ in 0..count / 2 {
        let name = items.value().filter(|&name| text::is_text(name))?;
        sink.name(name.bytes)?;
        each(sink, name.bytes, items.value()?)?;
    }
    items.is_empty().then_some(())
}

fn entry<'a, S: Sink<'a>>(sink: &mut S, map: usize, name: &[u8], value: Value) -> Option<()> {
    let mut room = Room::new();
    let (text, kind) = text::of(value, &mut room)?;
    sink.entry(map, name, text, kind)
}
