//! A record as bytes: a first line, then frames of a length, a checksum and a body. The first frame says what engine it
//! is of, the last how it ended; a file without the last was cut off.

use std::fs::File;
use std::io::{BufWriter, Error, Write};
use std::ops::Range;

/// The first bytes of each record; the number is that of its form.
const FIRST: &[u8] = b"rte record 1\n";
/// Bytes that are written at once.
const BUFFER: usize = 1 << 20;

/// Writes a record.
pub struct Writer {
    file: BufWriter<File>,
}

impl Writer {
    /// Makes the file, or empties it, and writes what engine it is of.
    pub fn create(path: &str, facts: &str) -> Result<Writer, Error> {
        let mut writer = Writer { file: BufWriter::with_capacity(BUFFER, File::create(path)?) };
        writer.file.write_all(FIRST)?;
        writer.frame(facts.as_bytes())?;
        writer.file.flush()?;
        Ok(writer)
    }

    /// Appends a frame.
    pub fn frame(&mut self, body: &[u8]) -> Result<(), Error> {
        self.file.write_all(&(body.len() as u32).to_le_bytes())?;
        self.file.write_all(&crc32fast::hash(body).to_le_bytes())?;
        self.file.write_all(body)
    }

    /// Everything is in the file.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.file.flush()
    }
}

/// A record that was read and found whole.
pub struct Reader {
    bytes: Box<[u8]>,
    frames: Vec<Range<usize>>,
}

impl Reader {
    /// Reads it. An error says what is wrong with the file, in words.
    pub fn open(path: &str) -> Result<Reader, String> {
        let bytes = std::fs::read(path).map_err(|error| format!("{path}: {error}"))?.into_boxed_slice();
        if !bytes.starts_with(FIRST) {
            return Err(format!("{path}: not a record, or of another version of the library"));
        }
        let (mut frames, mut at) = (Vec::new(), FIRST.len());
        while at < bytes.len() {
            // (A hole of zeros, as a crash of the system leaves it, is a row of empty ones whose sums are right.)
            let body = whole_frame(&bytes, at).filter(|body| !body.is_empty()).ok_or_else(|| {
                let ticks = frames.len().saturating_sub(1);
                format!("{path}: cut off or damaged at byte {at}, after {ticks} calls of the engine")
            })?;
            at = body.end;
            frames.push(body);
        }
        let is_ended = frames.last().is_some_and(|last| bytes[last.clone()].first() == Some(&super::tape::END));
        if frames.len() < 2 || !is_ended {
            let calls = frames.len().saturating_sub(1);
            return Err(format!("{path}: cut off after {calls} calls of the engine: it was not stopped"));
        }
        Ok(Reader { bytes, frames })
    }

    /// What engine it is of.
    pub fn facts(&self) -> &str {
        std::str::from_utf8(&self.bytes[self.frames[0].clone()]).unwrap_or_default()
    }

    /// How many frames there are after that.
    pub fn len(&self) -> usize {
        self.frames.len() - 1
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The body of one of them.
    pub fn frame(&self, number: usize) -> &[u8] {
        &self.bytes[self.frames[number + 1].clone()]
    }
}

fn whole_frame(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let (size, sum) = (word(at)? as usize, word(at + 4)?);
    let body = at + 8..(at + 8).checked_add(size)?;
    (crc32fast::hash(bytes.get(body.clone())?) == sum).then_some(body)
}
