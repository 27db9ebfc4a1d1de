//! Many messages: the two passes over them.

#![forbid(unsafe_code)]

use crate::columns::{Counter, Sizes, Writer};
use crate::message;

/// Why there is no result; the numbers are those of the C interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    Panicked = -1,
    TooLarge = -2,
    BadArguments = -3,
    NotAsMeasured = -4,
}

/// Messages in one piece of memory: the bytes before each of them, and where they end.
pub struct Piece<'a> {
    pub data: &'a [u8],
    pub head: usize,
    pub stops: &'a [i64],
}

impl<'a> Piece<'a> {
    /// Each message in turn; a failure where positions do not rise, or reach beyond the memory.
    fn messages(&self) -> impl Iterator<Item = Result<&'a [u8], Failure>> + '_ {
        let mut last = 0usize;
        self.stops.iter().map(move |&stop| {
            let stop = usize::try_from(stop).map_err(|_| Failure::BadArguments)?;
            let start = last.checked_add(self.head).ok_or(Failure::BadArguments)?;
            last = stop;
            self.data.get(start..stop).ok_or(Failure::BadArguments)
        })
    }
}

/// Which messages are supported, and the memory of their columns. `fits` has an entry for each message.
pub fn measure(pieces: &[Piece], fits: &mut [u8]) -> Result<Sizes, Failure> {
    let mut counter = Counter::default();
    let mut fits = fits.iter_mut();
    for piece in pieces {
        for data in piece.messages() {
            let found = message::read(data?, &mut counter);
            if found.is_none() {
                counter.forget();
            }
            *fits.next().ok_or(Failure::BadArguments)? = found.is_some().into();
        }
    }
    counter.sizes().ok_or(Failure::TooLarge)
}

/// Write the messages that fit to memory of the measured size.
pub fn fill(pieces: &[Piece], fits: &[u8], sizes: &Sizes, memory: &mut [u8]) -> Result<(), Failure> {
    let mut writer = Writer::new(sizes, memory).ok_or(Failure::NotAsMeasured)?;
    let mut fits = fits.iter();
    for piece in pieces {
        for data in piece.messages() {
            let data = data?;
            if *fits.next().ok_or(Failure::BadArguments)? != 0 {
                message::read(data, &mut writer).ok_or(Failure::NotAsMeasured)?;
            }
        }
    }
    writer.is_full().then_some(()).ok_or(Failure::NotAsMeasured)
}
