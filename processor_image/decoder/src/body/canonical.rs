//! An object or an array as text: without white space, names in order, numbers as their digits.
//!
//! Nothing is recursive: a document is first laid out as items, of which the members of objects are put in order.

#![forbid(unsafe_code)]

use std::cmp::Ordering;

use super::document::{number, space};
use super::number::plain;
use super::plan::Limits;
use super::strings;

/// Places from one to before another.
type Range = (usize, usize);

/// A value.
#[derive(Clone, Copy)]
struct Item {
    first: u8,   // of its bytes
    own: Range,  // the children of an object or array; the text of another value
    name: Range, // of a member, in quotes
    key: Range,  // of a member, its characters
}

/// Room that is used again for each text.
#[derive(Default)]
pub struct Canonical {
    items: Vec<Item>,
    pending: Vec<usize>,  // items of objects and arrays that have no end so far
    children: Vec<usize>, // items of those that have one
    ready: Vec<u8>,       // texts and names
    characters: Vec<u8>,
}

impl Canonical {
    /// Append the text of an object or array, which is valid; None if a number in it has no digits, or too many.
    pub fn write(&mut self, text: &[u8], limits: &Limits, out: &mut Vec<u8>) -> Option<()> {
        self.items.clear();
        self.pending.clear();
        self.children.clear();
        self.ready.clear();
        self.lay_out(text, limits)?;
        self.put(out)
    }

    fn lay_out(&mut self, text: &[u8], limits: &Limits) -> Option<()> {
        let mut open: Vec<Range> = Vec::new(); // items, and the first of their pending children
        let mut at = 0;
        loop {
            at = space(text, at);
            let mut item = Item { first: *text.get(at)?, own: (0, 0), name: (0, 0), key: (0, 0) };
            if item.first == b',' {
                at += 1;
                continue;
            }
            if matches!(item.first, b'}' | b']') {
                at += 1;
                let (closed, first) = open.pop()?;
                self.close(closed, first)?;
                if open.is_empty() {
                    return Some(());
                }
                continue;
            }
            if open.last().map_or(false, |&(parent, _)| self.items[parent].first == b'{') {
                let end = strings::end(text, at + 1)?.end;
                item.name = self.quoted(text.get(at + 1..end)?);
                item.key = self.keep_characters();
                at = space(text, space(text, end + 1) + 1); // behind the colon
                item.first = *text.get(at)?;
            }
            let start = self.ready.len();
            match item.first {
                b'{' | b'[' => {
                    self.pending.push(self.items.len());
                    open.push((self.items.len(), self.pending.len()));
                    self.items.push(item);
                    at += 1;
                    continue;
                }
                b'"' => {
                    let end = strings::end(text, at + 1)?.end;
                    self.quoted(text.get(at + 1..end)?);
                    at = end + 1;
                }
                b'-' | b'0'..=b'9' => {
                    let end = number(text, at)?;
                    plain(text.get(at..end)?, limits, &mut self.ready)?;
                    at = end;
                }
                first => {
                    let end = at + if first == b'f' { 5 } else { 4 };
                    self.ready.extend_from_slice(text.get(at..end)?);
                    at = end;
                }
            }
            item.own = (start, self.ready.len());
            self.pending.push(self.items.len());
            self.items.push(item);
        }
    }

    /// The children of an item are complete.
    fn close(&mut self, item: usize, first: usize) -> Option<()> {
        let (items, ready) = (&self.items, &self.ready);
        if items.get(item)?.first == b'{' {
            let key = |child: usize| &ready[items[child].key.0..items[child].key.1];
            self.pending.get_mut(first..)?.sort_by(|&one, &other| by_utf16(key(one), key(other)));
        }
        let start = self.children.len();
        self.children.extend(self.pending.drain(first..));
        self.items.get_mut(item)?.own = (start, self.children.len());
        Some(())
    }

    /// Append the text of the first item.
    fn put(&self, out: &mut Vec<u8>) -> Option<()> {
        let first = self.items.first()?;
        out.push(first.first);
        let mut open = vec![(first, first.own.0)]; // items, and their next children
        while let Some((item, next)) = open.last_mut() {
            if *next == item.own.1 {
                out.push(item.first + 2);
                open.pop();
                continue;
            }
            if *next > item.own.0 {
                out.push(b',');
            }
            let child = self.items.get(*self.children.get(*next)?)?;
            *next += 1;
            if child.name.1 > 0 {
                out.extend_from_slice(self.ready.get(child.name.0..child.name.1)?);
                out.push(b':');
            }
            if matches!(child.first, b'{' | b'[') {
                out.push(child.first);
                open.push((child, child.own.0));
            } else {
                out.extend_from_slice(self.ready.get(child.own.0..child.own.1)?);
            }
        }
        Some(())
    }

    /// Append a string in quotes to the texts.
    fn quoted(&mut self, string: &[u8]) -> Range {
        self.characters.clear();
        strings::unescape(string, &mut self.characters);
        let start = self.ready.len();
        strings::quote(&self.characters, &mut self.ready);
        (start, self.ready.len())
    }

    /// Append the characters of the last string to the texts.
    fn keep_characters(&mut self) -> Range {
        let start = self.ready.len();
        self.ready.extend_from_slice(&self.characters);
        (start, self.ready.len())
    }
}

/// The order of Java's strings.
fn by_utf16(one: &[u8], other: &[u8]) -> Ordering {
    if one.is_ascii() && other.is_ascii() {
        return one.cmp(other);
    }
    let units = |text| String::from_utf8_lossy(text).encode_utf16().collect::<Vec<_>>();
    units(one).cmp(&units(other))
}
