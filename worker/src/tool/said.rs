//! What a command says, from bytes to what the model is shown: in memory that does not grow with it.
//!
//! Up to the bound of the file all of it is cleaned and kept. Beyond, only the end will ever be seen, so bytes are
//! passed over as bytes: a command that says a gigabyte costs no more than the copying of it.

use std::io;

use super::output::clean;
use super::spill::Sink;

/// Enough for the tail that is shown, whatever it is written in.
const END_BYTES: usize = 128 * 1024;
/// A character has at most four bytes.
const CHAR_BYTES_MAX: usize = 4;

pub struct Said<'a> {
    sink: Sink<'a>,
    /// The beginning of a character whose rest is on its way.
    rest: Vec<u8>,
    /// The last bytes of what came since the sink was full.
    end: Vec<u8>,
    passed_over: bool,
}

impl<'a> Said<'a> {
    #[must_use]
    pub fn new(sink: Sink<'a>) -> Self {
        Said { sink, rest: Vec::new(), end: Vec::new(), passed_over: false }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        if self.sink.is_full() {
            return self.pass_over(bytes);
        }
        self.rest.extend_from_slice(bytes);
        let whole = self.rest.len() - unfinished(&self.rest);
        self.sink.push(&clean(&self.rest[..whole]));
        self.rest.drain(..whole);
    }

    fn pass_over(&mut self, bytes: &[u8]) {
        self.passed_over = true;
        self.end.extend_from_slice(bytes);
        if self.end.len() > 2 * END_BYTES {
            let gone = self.end.len() - END_BYTES;
            let chars = self.end[..gone].iter().filter(|byte| !is_inside_of_char(**byte)).count();
            self.sink.skip(gone as u64, chars as u64);
            self.end.drain(..gone);
        }
    }

    /// Whether it said nothing at all.
    #[must_use]
    pub fn finish(mut self) -> String {
        if !self.rest.is_empty() {
            let rest = std::mem::take(&mut self.rest);
            self.sink.push(&clean(&rest));
        }
        if self.passed_over {
            let from = self.end.iter().position(|byte| !is_inside_of_char(*byte)).unwrap_or(0);
            self.sink.push(&clean(&self.end[from..]));
        }
        self.sink.finish()
    }

    /// Reads what is there, without waiting, up to `bytes_max`. False: there will be no more.
    pub fn read(&mut self, from: &impl std::os::fd::AsFd, bytes_max: usize, buffer: &mut [u8]) -> io::Result<bool> {
        let mut read = 0;
        while read < bytes_max {
            match rustix::io::read(from, &mut *buffer) {
                Ok(0) => return Ok(false),
                Ok(count) => {
                    self.push(&buffer[..count]);
                    read += count;
                }
                Err(rustix::io::Errno::AGAIN) => return Ok(true),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }
}

fn is_inside_of_char(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

/// How many bytes at the end are the beginning of a character.
fn unfinished(bytes: &[u8]) -> usize {
    let tail = bytes.iter().rev().take(CHAR_BYTES_MAX).take_while(|byte| is_inside_of_char(**byte)).count();
    let Some(lead) = bytes.len().checked_sub(tail + 1).map(|at| bytes[at]) else { return 0 };
    let wanted = match lead {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return 0,
    };
    if tail + 1 < wanted { tail + 1 } else { 0 }
}

#[cfg(test)]
mod tests {
    use ukai_protocol::secret::fingerprint::Mask;

    use super::*;

    fn said(pieces: impl IntoIterator<Item = Vec<u8>>) -> String {
        let temp = tempfile::tempdir().expect("a folder");
        let mask = Mask::default();
        let mut said = Said::new(Sink::new("Bash", temp.path(), &mask));
        pieces.into_iter().for_each(|piece| said.push(&piece));
        said.finish()
    }

    #[test]
    fn a_character_that_comes_in_two_pieces_is_one() {
        for text in ["鵜飼", "né", "🐦!", "plain", ""] {
            for cut in 0..=text.len() {
                let (first, second) = text.as_bytes().split_at(cut);
                assert_eq!(said([first.to_vec(), second.to_vec()]), text, "{cut}");
            }
        }
        assert_eq!(said([vec![0xe9], vec![b'!']]), "\u{fffd}!");
        assert_eq!(said([vec![b'a', 0xf0, 0x9f]]), "a\u{fffd}");
    }

    #[test]
    fn of_a_gigabyte_the_beginning_and_the_end_are_shown_and_the_rest_is_counted() {
        // 200 MB of it: three times what is kept.
        let chunk = || vec![0_u8; 1024 * 1024];
        let text =
            said(std::iter::once(b"first\n".to_vec()).chain((0..200).map(|_| chunk())).chain([b"\nlast".to_vec()]));
        assert!(text.starts_with("first\n") && text.ends_with("\nlast"), "{}", text.len());
        assert!(text.chars().count() <= 30_000, "{}", text.chars().count());
        assert!(text.contains("of 209715211 characters"), "{:?}", text.lines().find(|line| line.contains("left out")));
    }
}
