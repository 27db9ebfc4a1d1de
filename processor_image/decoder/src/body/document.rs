//! One JSON document (RFC 8259), read strictly and once: where the values of columns are, or why it is none.
//!
//! Nothing is recursive; names and levels take a few bytes for each of the document's.

#![forbid(unsafe_code)]

use super::plan::{Kind, Limits, Node, Plan};
use super::strings;

/// Why a body has no columns at all; the numbers are those of the caller's texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    NoUtf8,
    NoDocument,
    HalfPair,
    Twice,
    NoObject,
}

/// Where the value of a column is.
#[derive(Clone, Copy, Debug)]
pub enum Found {
    Absent,
    /// A value on the path is no object.
    Blocked(Kind),
    Value(Place),
}

/// A value in its document: a string without its quotes, anything else as it is.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub kind: Kind,
    pub start: usize,
    pub end: usize,
    /// Whether a string has escapes.
    pub escaped: bool,
}

const NOWHERE: usize = usize::MAX; // no column is below
const FEW: usize = 64; // names that are compared with each other at once

/// An object or an array without an end so far.
struct Frame {
    is_object: bool,
    node: usize,
    start: usize,
    names: usize,
    filter: u128,
    next: usize, // child whose name is expected
}

/// A name of an open object, in the document or, if it has escapes, in the room.
#[derive(Clone, Copy)]
struct Name {
    start: usize,
    end: usize,
    in_room: bool,
}

/// Reads documents one after the other.
pub struct Scanner<'p> {
    nodes: &'p [Node<'p>],
    limits: &'p Limits,
    frames: Vec<Frame>,
    hashes: Vec<u64>,
    names: Vec<Name>,
    room: Vec<u8>,
    is_half: bool,
    is_twice: bool,
}

impl<'p> Scanner<'p> {
    pub fn new(plan: &'p Plan<'p>) -> Self {
        Scanner {
            nodes: &plan.nodes,
            limits: &plan.limits,
            frames: Vec::new(),
            hashes: Vec::new(),
            names: Vec::new(),
            room: Vec::new(),
            is_half: false,
            is_twice: false,
        }
    }

    /// Find the values of all columns in a text of UTF-8; `found` has `Absent` for each.
    pub fn scan(&mut self, text: &[u8], found: &mut [Found]) -> Result<(), Fault> {
        self.frames.clear();
        self.hashes.clear();
        self.names.clear();
        self.room.clear();
        self.is_half = false;
        self.is_twice = false;
        let is_object = self.document(text, found).ok_or(Fault::NoDocument)?;
        if self.is_half {
            return Err(Fault::HalfPair);
        }
        if self.is_twice {
            return Err(Fault::Twice);
        }
        is_object.then_some(()).ok_or(Fault::NoObject)
    }

    /// Whether the document is an object; None: it is none.
    fn document(&mut self, text: &[u8], found: &mut [Found]) -> Option<bool> {
        let mut node = 0;
        let mut at = 0;
        let mut is_object = false;
        loop {
            at = space(text, at);
            let start = at;
            match *text.get(at)? {
                b'"' => {
                    let string = strings::end(text, at + 1)?;
                    self.is_half |= string.is_half;
                    at = string.end + 1;
                    let place = Place { kind: Kind::Text, start: start + 1, end: string.end, escaped: string.escaped };
                    self.note(node, place, found);
                }
                first @ (b'{' | b'[') => {
                    if self.frames.len() >= self.limits.depth {
                        return None;
                    }
                    let is_object = first == b'{';
                    if node != NOWHERE && !is_object {
                        self.block(node, Kind::Array, found);
                    }
                    self.frames.push(Frame { is_object, node, start, names: self.names.len(), filter: 0, next: 0 });
                    at = space(text, at + 1);
                    if *text.get(at)? != first + 2 {
                        node = NOWHERE;
                        if is_object {
                            (node, at) = self.name(text, at)?;
                        }
                        continue;
                    }
                }
                b'-' | b'0'..=b'9' => {
                    at = number(text, at)?;
                    let most = self.limits.number_digits;
                    if at - start > most && text[start..at].iter().filter(|byte| byte.is_ascii_digit()).count() > most {
                        return None;
                    }
                    self.note(node, Place { kind: Kind::Number, start, end: at, escaped: false }, found);
                }
                b'n' => at = word(text, at, b"null")?,
                first => {
                    at = if first == b't' { word(text, at, b"true")? } else { word(text, at, b"false")? };
                    self.note(node, Place { kind: Kind::Boolean, start, end: at, escaped: false }, found);
                }
            }
            // Behind a value, or in an empty object or array.
            loop {
                at = space(text, at);
                let frame = match self.frames.last() {
                    Some(frame) => frame,
                    None => return (at == text.len()).then_some(is_object),
                };
                let end = if frame.is_object { b'}' } else { b']' };
                let byte = *text.get(at)?;
                at += 1;
                if byte == b',' {
                    node = NOWHERE;
                    if frame.is_object {
                        at = space(text, at);
                        (node, at) = self.name(text, at)?;
                    }
                    break;
                }
                if byte != end {
                    return None;
                }
                is_object = self.close(text, at, found)?;
            }
        }
    }

    /// The end of the innermost object or array, which is before `at`; returns whether it is an object.
    fn close(&mut self, text: &[u8], at: usize, found: &mut [Found]) -> Option<bool> {
        let frame = self.frames.pop()?;
        if self.names.len() - frame.names > FEW {
            self.find_twice(text, frame.names);
        }
        self.names.truncate(frame.names);
        self.hashes.truncate(frame.names);
        let kind = if frame.is_object { Kind::Object } else { Kind::Array };
        if frame.node != NOWHERE {
            for &column in &self.nodes[frame.node].columns {
                found[column] = Found::Value(Place { kind, start: frame.start, end: at, escaped: false });
            }
        }
        Some(frame.is_object)
    }

    /// A name, at its quote, and the colon behind it: its node, and where the value is.
    #[inline]
    fn name(&mut self, text: &[u8], at: usize) -> Option<(usize, usize)> {
        if *text.get(at)? != b'"' {
            return None;
        }
        let start = at + 1;
        let string = strings::end(text, start)?;
        let colon = space(text, string.end + 1);
        if *text.get(colon)? != b':' {
            return None;
        }
        let mut own = Name { start, end: string.end, in_room: false };
        if string.escaped {
            self.is_half |= string.is_half;
            own = Name { start: self.room.len(), end: 0, in_room: true };
            strings::unescape(text.get(start..string.end)?, &mut self.room);
            own.end = self.room.len();
        }
        let name = if own.in_room { &self.room[own.start..own.end] } else { &text[own.start..own.end] };
        if name.len() > self.limits.name_length && strings::characters(name) > self.limits.name_length {
            return None;
        }
        let own_hash = hash(name);
        let bit = 1u128 << (own_hash & 127);
        let frame = self.frames.last_mut()?;
        if frame.filter & bit != 0 && self.names.len() - frame.names < FEW {
            let room = &self.room;
            let others = self.hashes[frame.names..].iter().zip(&self.names[frame.names..]);
            self.is_twice |=
                others.filter(|(&other, _)| other == own_hash).any(|(_, other)| bytes(text, room, other) == name);
        }
        frame.filter |= bit;
        let mut node = NOWHERE;
        if frame.node != NOWHERE && self.nodes[frame.node].filter & bit != 0 {
            let children = &self.nodes[frame.node].children;
            let expected = children.get(frame.next).map_or(false, |each| each.0 == own_hash && each.1 == name);
            let place = if expected {
                Some(frame.next)
            } else {
                children.iter().position(|each| each.0 == own_hash && each.1 == name)
            };
            if let Some(place) = place {
                frame.next = place + 1;
                node = children[place].2;
            }
        }
        self.hashes.push(own_hash);
        self.names.push(own);
        Some((node, colon + 1))
    }

    /// Look for a name that is twice among many.
    #[cold]
    fn find_twice(&mut self, text: &[u8], first: usize) {
        let room = &self.room;
        let mut own: Vec<(u64, &[u8])> = self.hashes[first..]
            .iter()
            .zip(&self.names[first..])
            .map(|(&hash, name)| (hash, bytes(text, room, name)))
            .collect();
        own.sort_unstable();
        self.is_twice |= own.windows(2).any(|two| two[0] == two[1]);
    }

    /// A value that is neither null nor an object or array.
    #[inline]
    fn note(&mut self, node: usize, place: Place, found: &mut [Found]) {
        if node != NOWHERE {
            for &column in &self.nodes[node].columns {
                found[column] = Found::Value(place);
            }
            self.block(node, place.kind, found);
        }
    }

    /// The columns below a value that is no object.
    fn block(&self, node: usize, kind: Kind, found: &mut [Found]) {
        if self.nodes[node].children.is_empty() {
            return;
        }
        let mut left = vec![node];
        while let Some(node) = left.pop() {
            for each in &self.nodes[node].children {
                left.push(each.2);
                for &column in &self.nodes[each.2].columns {
                    found[column] = Found::Blocked(kind);
                }
            }
        }
    }
}

fn bytes<'a>(text: &'a [u8], room: &'a [u8], name: &Name) -> &'a [u8] {
    let from = if name.in_room { room } else { text };
    &from[name.start..name.end]
}

/// Where no white space is.
#[inline]
pub fn space(text: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\t' | b'\r') = text.get(at) {
        at += 1;
    }
    at
}

/// The end of a number.
#[inline]
pub fn number(text: &[u8], mut at: usize) -> Option<usize> {
    if *text.get(at)? == b'-' {
        at += 1;
    }
    at = match *text.get(at)? {
        b'0' => at + 1,
        b'1'..=b'9' => digits(text, at),
        _ => return None,
    };
    if let Some(b'.') = text.get(at) {
        let end = digits(text, at + 1);
        if end == at + 1 {
            return None;
        }
        at = end;
    }
    if let Some(b'e' | b'E') = text.get(at) {
        at += 1;
        if let Some(b'+' | b'-') = text.get(at) {
            at += 1;
        }
        let end = digits(text, at);
        if end == at {
            return None;
        }
        at = end;
    }
    Some(at)
}

#[inline]
fn digits(text: &[u8], mut at: usize) -> usize {
    while text.get(at).map_or(false, u8::is_ascii_digit) {
        at += 1;
    }
    at
}

fn word(text: &[u8], at: usize, word: &[u8]) -> Option<usize> {
    let end = at + word.len();
    (text.get(at..end)? == word).then_some(end)
}

/// A number for a name; other names may have the same.
#[inline]
pub fn hash(name: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut found = name.len() as u64;
    let mut mix = |word: u64| found = (found.rotate_left(5) ^ word).wrapping_mul(FACTOR);
    let mut words = name.chunks_exact(8);
    for word in &mut words {
        mix(u64::from_le_bytes(word.try_into().unwrap_or_default()));
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        mix(rest.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)));
    }
    found ^ found >> 32
}
