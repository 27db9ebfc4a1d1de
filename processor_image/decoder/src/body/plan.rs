//! What the caller says of the columns: limits, texts of errors, paths and types, in one piece of bytes.

#![forbid(unsafe_code)]

use super::document::hash;

/// Kinds of values, in the order of the rules and texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Number,
    Boolean,
    Object,
    Array,
}

const KINDS: usize = 5;
const DEPTH: usize = 64; // of a type; the caller allows less

pub struct Limits {
    pub digits: usize,
    pub exponent_digits: usize,
    pub exponent_length: usize,
    pub depth: usize,
    pub number_digits: usize,
    pub name_length: usize,
    pub values_per_byte: usize,
    pub values_more: usize,
    pub error_bytes: usize,
    pub first_micros: i64,
    pub last_micros: i64,
}

/// How a value becomes one of the column's type; the numbers are the caller's, 0 is none.
#[derive(Clone, Copy)]
pub enum Rule {
    Characters = 1,
    Digits,
    Word,
    Text,
    Same,
    Whole,
    Decimal,
    DecimalText,
    Nearest,
    Date,
    Instant,
    Truncated,
    Epoch,
}

const RULES: [Rule; 13] = [
    Rule::Characters,
    Rule::Digits,
    Rule::Word,
    Rule::Text,
    Rule::Same,
    Rule::Whole,
    Rule::Decimal,
    Rule::DecimalText,
    Rule::Nearest,
    Rule::Date,
    Rule::Instant,
    Rule::Truncated,
    Rule::Epoch,
];

/// What a column is made of in memory; the numbers are the caller's.
#[derive(Clone, Copy)]
pub enum Storage {
    Text,
    Boolean,
    Long,
    Double,
    Decimal,
    Date,
}

const STORAGES: [Storage; 6] =
    [Storage::Text, Storage::Boolean, Storage::Long, Storage::Double, Storage::Decimal, Storage::Date];

pub struct Leaf {
    pub storage: Storage,
    pub precision: u32,
    pub scale: i32,
    pub rules: [Option<Rule>; KINDS],
}

/// A type of a column; `width` is how often an element counts.
pub enum Type<'a> {
    Leaf(Leaf),
    Struct(Vec<(&'a [u8], Type<'a>)>),
    Array { element: Box<Type<'a>>, width: usize },
    Map { value: Box<Type<'a>>, width: usize },
}

/// The texts of a column's errors.
pub struct Texts<'a> {
    pub misfits: [&'a [u8]; KINDS],
    pub absent: &'a [u8],
    pub blocked: [&'a [u8]; KINDS],
    pub too_many: &'a [u8],
}

pub struct Column<'a> {
    pub required: bool,
    pub texts: Texts<'a>,
    pub kind: Type<'a>,
}

/// A name on the path of a column.
#[derive(Default)]
pub struct Node<'a> {
    pub columns: Vec<usize>,
    /// Hash, name and place among the nodes.
    pub children: Vec<(u64, &'a [u8], usize)>,
    /// A bit for each hash among the children.
    pub filter: u128,
}

pub struct Plan<'a> {
    pub limits: Limits,
    pub more_bytes: usize,
    pub faults: [&'a [u8]; 5],
    pub columns: Vec<Column<'a>>,
    /// The first one is the root.
    pub nodes: Vec<Node<'a>>,
}

impl<'a> Plan<'a> {
    /// None if the bytes are no plan.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = Reader { rest: bytes };
        let limits = Limits {
            digits: reader.number()?,
            exponent_digits: reader.number()?,
            exponent_length: reader.number()?,
            depth: reader.number()?,
            number_digits: reader.number()?,
            name_length: reader.number()?,
            values_per_byte: reader.number()?,
            values_more: reader.number()?,
            error_bytes: reader.number()?,
            first_micros: reader.long()?,
            last_micros: reader.long()?,
        };
        if limits.digits > 38 || limits.exponent_digits > 18 || limits.exponent_length > 4 {
            return None; // of what is computed with 128 bits
        }
        let more_bytes = reader.number()?;
        let faults = reader.texts()?;
        let mut plan = Plan { limits, more_bytes, faults, columns: Vec::new(), nodes: vec![Node::default()] };
        for number in 0..reader.number()? {
            let required = reader.number()? != 0;
            let mut node = 0;
            for _ in 0..reader.number()? {
                node = plan.child(node, reader.bytes()?);
            }
            plan.nodes[node].columns.push(number);
            let texts = Texts {
                misfits: reader.texts()?,
                absent: reader.bytes()?,
                blocked: reader.texts()?,
                too_many: reader.bytes()?,
            };
            let kind = reader.kind(DEPTH)?;
            plan.columns.push(Column { required, texts, kind });
        }
        reader.rest.is_empty().then_some(plan)
    }

    /// The node of a name below another one, which is made if it is not there.
    fn child(&mut self, parent: usize, name: &'a [u8]) -> usize {
        if let Some(&(_, _, found)) = self.nodes[parent].children.iter().find(|each| each.1 == name) {
            return found;
        }
        let (own, made) = (hash(name), self.nodes.len());
        self.nodes.push(Node::default());
        self.nodes[parent].children.push((own, name, made));
        self.nodes[parent].filter |= 1 << (own & 127);
        made
    }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, size: usize) -> Option<&'a [u8]> {
        let taken = self.rest.get(..size)?;
        self.rest = &self.rest[size..];
        Some(taken)
    }

    fn number(&mut self) -> Option<usize> {
        usize::try_from(u32::from_le_bytes(self.take(4)?.try_into().ok()?)).ok()
    }

    fn long(&mut self) -> Option<i64> {
        Some(i64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let size = self.number()?;
        self.take(size).filter(|bytes| std::str::from_utf8(bytes).is_ok())
    }

    fn texts(&mut self) -> Option<[&'a [u8]; KINDS]> {
        Some([self.bytes()?, self.bytes()?, self.bytes()?, self.bytes()?, self.bytes()?])
    }

    fn kind(&mut self, depth: usize) -> Option<Type<'a>> {
        let depth = depth.checked_sub(1)?;
        Some(match self.number()? {
            0 => Type::Leaf(self.leaf()?),
            1 => {
                let mut fields = Vec::new();
                for _ in 0..self.number()? {
                    fields.push((self.bytes()?, self.kind(depth)?));
                }
                Type::Struct(fields)
            }
            2 => Type::Array { width: self.number()?, element: Box::new(self.kind(depth)?) },
            3 => Type::Map { width: self.number()?, value: Box::new(self.kind(depth)?) },
            _ => return None,
        })
    }

    fn leaf(&mut self) -> Option<Leaf> {
        let storage = *STORAGES.get(self.number()?)?;
        let (precision, scale) = (self.number()?, self.number()?);
        if precision > 38 || scale > 38 {
            return None;
        }
        let mut rules = [None; KINDS];
        for rule in &mut rules {
            let number = self.number()?;
            *rule = match number {
                0 => None,
                _ => Some(*RULES.get(number - 1)?),
            };
        }
        Some(Leaf { storage, precision: precision as u32, scale: scale as i32, rules })
    }
}
