//! Where output goes that is too long to show: the job's `outputs/`, synced before anyone is told its name.
//!
//! The name is the hash of what is in it. So a tool that is run again after a crash writes the same file, and a model
//! that reads it later reads what its result spoke of.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use ukai_protocol::disk;
use ukai_protocol::secret::fingerprint::{Mask, Pieces};

use super::output::Capped;

/// What one call may leave on the disk: a search that finds everything must not fill it.
pub const SPILL_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The output of one call, shown up to the cap, spilled beyond it.
pub struct Sink<'a> {
    tool: &'a str,
    outputs: &'a Path,
    mask: &'a Mask,
    /// What no longer waits for its secret to be whole is shown.
    pieces: Pieces,
    capped: Capped,
    kept: Kept,
}

enum Kept {
    /// All of it so far: it may yet fit.
    Memory(String),
    Disk(Box<Spill>),
    Failed(io::Error),
}

impl<'a> Sink<'a> {
    #[must_use]
    pub fn new(tool: &'a str, outputs: &'a Path, mask: &'a Mask) -> Self {
        let (pieces, capped) = Default::default();
        Sink { tool, outputs, mask, pieces, capped, kept: Kept::Memory(String::new()) }
    }

    /// Before anything is pushed: what is shown is to be at most so many tokens.
    #[must_use]
    pub fn within(self, tokens_max: u64) -> Self {
        Sink { capped: Capped::within(tokens_max), ..self }
    }

    /// For who cuts text before it is pushed.
    #[must_use]
    pub fn mask(&self) -> &'a Mask {
        self.mask
    }

    /// Takes clean text.
    pub fn push(&mut self, text: &str) {
        let masked = self.pieces.push(self.mask, text);
        self.keep(&masked);
    }

    /// Nothing more is kept but the end of what comes: the file is full, or there is none.
    #[must_use]
    pub fn is_full(&self) -> bool {
        match &self.kept {
            Kept::Memory(_) => false,
            Kept::Disk(spill) => spill.dropped > 0,
            Kept::Failed(_) => true,
        }
    }

    /// So much came while it was full, that is neither kept nor shown.
    pub fn skip(&mut self, bytes: u64, chars: u64) {
        self.capped.skip(chars);
        if let Kept::Disk(spill) = &mut self.kept {
            spill.dropped += bytes;
        }
    }

    fn keep(&mut self, text: &str) {
        self.capped.push(text);
        let written = match &mut self.kept {
            Kept::Memory(all) => {
                all.push_str(text);
                if !self.capped.is_cut() {
                    return;
                }
                match Spill::begin(self.outputs, all) {
                    Ok(spill) => {
                        self.kept = Kept::Disk(Box::new(spill));
                        Ok(())
                    }
                    Err(error) => Err(error),
                }
            }
            Kept::Disk(spill) => spill.write(text),
            Kept::Failed(_) => Ok(()),
        };
        if let Err(error) = written {
            // The result is still worth having; it says that its middle is lost.
            tracing::warn!(outputs = %self.outputs.display(), %error, "output could not be spilled");
            self.kept = Kept::Failed(error);
        }
    }

    /// What the model is told.
    #[must_use]
    pub fn finish(mut self) -> String {
        let rest = self.pieces.finish(self.mask);
        self.keep(&rest);
        let finished = match self.kept {
            Kept::Memory(_) => Ok(None),
            Kept::Failed(error) => Err(error),
            Kept::Disk(spill) => spill.finish(self.outputs, self.tool).map(Some),
        };
        let where_it_is = match finished {
            Ok(None) => String::new(),
            Ok(Some(file)) => file.told(),
            Err(error) => format!("They could not be kept in {}: {error}. Narrow the call.", self.outputs.display()),
        };
        self.capped.finish(&where_it_is)
    }
}

/// A file being written under a name of its own, until its hash is known.
struct Spill {
    file: BufWriter<File>,
    temporary: PathBuf,
    hasher: blake3::Hasher,
    bytes: u64,
    dropped: u64,
}

struct Spilled {
    path: PathBuf,
    bytes: u64,
    dropped: u64,
    hash: blake3::Hash,
}

impl Spill {
    fn begin(outputs: &Path, text: &str) -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        disk::create_dir(outputs)?;
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let temporary = outputs.join(format!(".{}-{count}.tmp", std::process::id()));
        let file = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&temporary)?;
        let mut spill =
            Spill { file: BufWriter::new(file), temporary, hasher: blake3::Hasher::new(), bytes: 0, dropped: 0 };
        spill.write(text)?;
        Ok(spill)
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        let bytes = text.as_bytes();
        if self.dropped > 0 || self.bytes + bytes.len() as u64 > SPILL_BYTES_MAX {
            self.dropped += bytes.len() as u64;
            return Ok(());
        }
        self.file.write_all(bytes)?;
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn finish(mut self, outputs: &Path, tool: &str) -> io::Result<Spilled> {
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        let hash = self.hasher.finalize();
        let name = format!("{}-{}.txt", tool.to_lowercase(), &hash.to_hex()[..16]);
        let path = outputs.join(name);
        fs::rename(&self.temporary, &path)?;
        disk::sync_dir(outputs)?;
        Ok(Spilled { path, bytes: self.bytes, dropped: self.dropped, hash })
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        // After the rename there is none; a call that was cancelled leaves no half of an output behind.
        let _ = fs::remove_file(&self.temporary);
    }
}

impl Spilled {
    fn told(&self) -> String {
        let lost = match self.dropped {
            0 => String::new(),
            bytes => format!(" but for its last {bytes} bytes"),
        };
        format!(
            "The whole output{lost} is in {} ({} bytes, blake3 {}): Read it with offset and limit, or narrow the call.",
            self.path.display(),
            self.bytes,
            self.hash.to_hex()
        )
    }
}

#[cfg(test)]
mod tests {
    use ukai_protocol::secret::Secret;
    use ukai_protocol::secret::fingerprint::Fingerprints;

    use super::*;

    fn lines(count: usize) -> String {
        (0..count).map(|n| format!("line {n}\n")).collect()
    }

    #[test]
    fn short_output_leaves_no_file() {
        let temp = tempfile::tempdir().expect("a folder");
        let mask = Mask::default();
        let mut sink = Sink::new("Grep", temp.path(), &mask);
        sink.push("one\n");
        assert_eq!(sink.finish(), "one\n");
        assert_eq!(fs::read_dir(temp.path()).expect("a folder").count(), 0);
    }

    #[test]
    fn long_output_is_kept_whole_under_the_hash_that_is_told() {
        let temp = tempfile::tempdir().expect("a folder");
        let outputs = temp.path().join("outputs");
        let told = |_| {
            let mask = Mask::default();
            let mut sink = Sink::new("Grep", &outputs, &mask);
            lines(9000).split_inclusive('\n').for_each(|line| sink.push(line));
            sink.finish()
        };
        let [first, second] = [0, 1].map(told);
        assert_eq!(first, second, "the same output is the same file");
        let files: Vec<PathBuf> =
            fs::read_dir(&outputs).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
        assert_eq!(files.len(), 1);
        let kept = fs::read_to_string(&files[0]).expect("a file");
        assert_eq!(kept, lines(9000));
        let hash = blake3::hash(kept.as_bytes()).to_hex().to_string();
        for part in [files[0].to_str().expect("text"), &hash, &format!("{} bytes", kept.len())] {
            assert!(first.contains(part), "{part}");
        }
    }

    #[test]
    fn an_abandoned_output_leaves_no_file() {
        let temp = tempfile::tempdir().expect("a folder");
        let mask = Mask::default();
        let mut sink = Sink::new("Grep", temp.path(), &mask);
        sink.push(&lines(9000));
        drop(sink);
        assert_eq!(fs::read_dir(temp.path()).expect("a folder").count(), 0);
    }

    #[test]
    fn a_folder_that_takes_no_file_is_said_and_the_ends_are_still_shown() {
        let temp = tempfile::tempdir().expect("a folder");
        let in_the_way = temp.path().join("file");
        fs::write(&in_the_way, "").expect("a file");
        let outputs = in_the_way.join("outputs");
        let mask = Mask::default();
        let mut sink = Sink::new("Grep", &outputs, &mask);
        sink.push(&lines(9000));
        let told = sink.finish();
        assert!(told.contains("could not be kept") && told.ends_with("line 8999\n"), "{told}");
    }

    #[test]
    fn no_secret_comes_into_the_file_however_it_arrives() {
        let temp = tempfile::tempdir().expect("a folder");
        let mask = Mask::new(Fingerprints::of([1; 32], &[Secret::new("sk-0123456789".to_owned())]));
        let mut sink = Sink::new("Grep", temp.path(), &mask);
        for piece in ["a sk-01", "23456789 b\n", &lines(9000), "sk-0123", "456789"] {
            sink.push(piece);
        }
        let told = sink.finish();
        let file = fs::read_dir(temp.path()).expect("a folder").next().expect("a file").expect("an entry").path();
        let kept = fs::read_to_string(file).expect("text");
        for text in [told, kept] {
            assert!(text.starts_with("a [secret] b\n") && text.ends_with("[secret]"), "{text}");
        }
    }
}
