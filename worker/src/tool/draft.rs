//! What Write and Edit do alike: open the place that was named, make sure that its file was seen as it is, put the new
//! contents there and remember them.

use std::path::Path;

use ukai_protocol::event::{Change, FileChange};
use ukai_protocol::json::Json;

use super::look::{self, Contents};
use super::put::{PutError, Spot};
use super::seen::{Look, Since};
use super::target::target;
use super::{Context, Stopped, text};
use crate::permission::path::Resolved;

/// What Edit says of a file that is not there.
pub const MISSING: &str = "it does not exist. Write creates it; so does Edit with an empty old_string";

/// A file that is about to be written.
pub struct Draft<'a> {
    tool: &'static str,
    named: &'a str,
    place: Resolved,
    spot: Spot,
    context: &'a Context,
}

impl<'a> Draft<'a> {
    /// Opens what the call names, and judges it again as what it turned out to be. Who `creates` also gets the folders
    /// that are missing.
    pub fn open(tool: &'static str, input: &'a Json, creates: bool, context: &'a Context) -> Result<Self, Stopped> {
        let named = text(input, "file_path").unwrap_or_default();
        if named.ends_with('/') {
            return Err(Stopped::Invalid(format!("{tool} {named}: this names a folder. Name a file.")));
        }
        let place = target(tool, named, context)?;
        let permission = &context.permission;
        if !permission.still_allowed(tool, &place.lexical, &place.real, context.consented) {
            let why = format!("{tool} {named}: the policy of this job forbids it. Go on without it.");
            return Err(Stopped::Denied(why));
        }
        context.check_cancelled()?;
        let may_create = |folder: &Path| creates && permission.places().may_create(tool, folder);
        let spot = Spot::open(&place, may_create).map_err(|error| match error {
            PutError::FolderMissing { .. } if !creates => Stopped::Failed(format!("{tool} {named}: {MISSING}.")),
            error => stopped(tool, named, &error),
        })?;
        Ok(Draft { tool, named, place, spot, context })
    }

    /// What is there now, if anything.
    pub fn old(&self) -> Result<Option<(Look, Contents)>, Stopped> {
        let read = |file| look::read(file, self.context).map_err(|error| error.stopped(self.tool, self.named));
        self.spot.old().map(read).transpose()
    }

    /// Whether this job has seen what it is about to overwrite.
    pub fn check_seen(&self, now: &Look) -> Result<(), Stopped> {
        match self.context.seen.since(&self.place.real, now) {
            Since::Unchanged => Ok(()),
            Since::NeverSeen => {
                Err(self.failed("it exists, and you have not read it here. Nothing was written. Read it first"))
            }
            Since::Changed(why) => {
                let next = "Nothing was written. Read it again, and repeat the change on what it says now";
                Err(self.failed(&format!("it {why}. {next}")))
            }
        }
    }

    /// Puts the new contents there.
    pub fn put(&self, bytes: &[u8]) -> Result<FileChange, Stopped> {
        let change = if self.spot.old().is_some() { Change::Modified } else { Change::Created };
        let change = FileChange { path: self.place.real.display().to_string(), change };
        match self.spot.put(bytes, self.context) {
            Ok(mark) => {
                let whole = bytes.len() as u64 <= look::WHOLE_BYTES_MAX;
                let look = Look { mark, hash: whole.then(|| blake3::hash(bytes)) };
                self.context.saw(&self.place.real, look);
                Ok(change)
            }
            Err(error @ PutError::Unsynced(_)) => {
                let why = format!("{} {}: {error}.", self.tool, self.named);
                Err(Stopped::HalfDone { why, files_changed: vec![change] })
            }
            Err(error) => Err(stopped(self.tool, self.named, &error)),
        }
    }

    /// The call as such cannot be carried out.
    pub fn invalid(&self, why: &str) -> Stopped {
        Stopped::Invalid(format!("{} {}: {why}.", self.tool, self.named))
    }

    pub fn failed(&self, why: &str) -> Stopped {
        Stopped::Failed(format!("{} {}: {why}.", self.tool, self.named))
    }
}

fn stopped(tool: &str, named: &str, error: &PutError) -> Stopped {
    match error {
        PutError::Cancelled => Stopped::Cancelled,
        error => Stopped::Failed(format!("{tool} {named}: {error}.")),
    }
}
