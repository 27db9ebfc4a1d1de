//! Bodies of events with JSON to typed columns, each value exactly or not at all.

#![forbid(unsafe_code)]

mod build;
mod canonical;
mod document;
mod number;
mod plan;
mod rows;
mod strings;
mod time;

use crate::batch::Failure;
use build::{padded, Builder, Memory, NUMBERS};
use plan::Plan;

/// The bodies of events, as Arrow has them: their ends, and a bit for each that is not null, from the bit `first` on.
pub struct Bodies<'a> {
    pub data: &'a [u8],
    pub ends: &'a [i32],
    pub valid: &'a [u8],
    pub first: usize,
}

impl<'a> Bodies<'a> {
    /// Each body in turn, None for null; a failure where ends do not rise, or reach beyond the memory.
    fn each(&self) -> impl Iterator<Item = Result<Option<&'a [u8]>, Failure>> + '_ {
        self.ends.windows(2).enumerate().map(move |(row, two)| {
            let bit = self.first + row;
            if !self.valid.is_empty() && self.valid.get(bit / 8).ok_or(Failure::BadArguments)? >> (bit % 8) & 1 == 0 {
                return Ok(None);
            }
            let place = |end: i32| usize::try_from(end).map_err(|_| Failure::BadArguments);
            self.data.get(place(two[0])?..place(two[1])?).ok_or(Failure::BadArguments).map(Some)
        })
    }
}

/// The columns of bodies: those of the plan, and the errors.
pub struct Parsed {
    columns: Vec<Builder>,
}

impl Parsed {
    /// Parse bodies.
    pub fn of(plan: &[u8], bodies: &Bodies) -> Result<Self, Failure> {
        let plan = Plan::read(plan).ok_or(Failure::BadArguments)?;
        Ok(Parsed { columns: rows::read(&plan, bodies.each())? })
    }

    /// The numbers of each column, and of those inside of it behind it; returns the size of their memory.
    pub fn numbers(&self) -> (Vec<u64>, usize) {
        let mut numbers = Vec::new();
        self.columns.iter().for_each(|column| column.numbers(&mut numbers));
        let sizes = numbers.chunks_exact(NUMBERS).flat_map(|column| &column[2..]);
        let total = sizes.map(|&size| padded(size as usize)).sum();
        (numbers, total)
    }

    /// Write the columns to memory of exactly their size.
    pub fn write(&self, memory: &mut [u8]) -> Result<(), Failure> {
        let mut memory = Memory { rest: memory };
        let written = self.columns.iter().try_for_each(|column| column.write(&mut memory));
        (written.is_some() && memory.rest.is_empty()).then_some(()).ok_or(Failure::NotAsMeasured)
    }
}
