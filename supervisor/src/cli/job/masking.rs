//! Secrets in what a job is called: a name stands in lists, alerts and file names, so none may hold a key.
//!
//! A name that is made of a prompt is made of the prompt as it may be shown: once it is in small letters nobody knows a key
//! any more. The prompt itself is the owner's own text, and goes to the model as it was typed; that is said.

use ukai_notifier::redact::Redactor;
use ukai_protocol::job::JobSpec;

use crate::cli::context::Context;
use crate::job_file;

pub(super) struct Masking(Redactor);

impl Masking {
    pub(super) fn of(context: &Context) -> Self {
        Masking(context.redactor())
    }

    /// For a job that has none.
    pub(super) fn name_from(&self, prompt: &str) -> String {
        job_file::name_from_prompt(&self.0.redacted(prompt))
    }

    /// Masks what is secret in its name, and notes what of the rest a person should know: once for all jobs.
    pub(super) fn check(&self, spec: &mut JobSpec, notes: &mut Vec<String>) {
        let shown = self.0.redacted(&spec.name);
        if shown != spec.name {
            spec.name = if job_file::check_name(&shown).is_ok() { shown } else { "job".to_owned() };
            notes.push(format!("the name of a job held a secret: it is called {} instead", spec.name));
        }
        for (what, text) in [("prompt", &*spec.prompt), ("workdir", &*spec.workdir.to_string_lossy())] {
            if self.0.knows(text) {
                notes.push(format!(
                    "the {what} of a job holds a secret that stands in this environment or in a provider's key: it is kept \
                     in the job's files and sent to the provider as typed"
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ukai_protocol::secret::Secret;

    use super::*;
    use crate::store::testing::spec;

    const KEY: &str = "Kf8Qm2Zx81LpQw07";

    fn checked(name: &str, prompt: &str, workdir: &str) -> (String, JobSpec, Vec<String>) {
        let masking = Masking(Redactor::new(vec![Secret::new(KEY.to_owned())]));
        let mut spec = JobSpec { name: name.into(), prompt: prompt.into(), workdir: workdir.into(), ..spec() };
        let mut notes = Vec::new();
        masking.check(&mut spec, &mut notes);
        (masking.name_from(prompt), spec, notes)
    }

    #[test]
    fn no_name_holds_a_secret_and_other_texts_are_the_owners_own() {
        let (clean, prompt) = ("/work", format!("Try {KEY} at the door"));
        for (quirk, name, prompt, workdir, expected, noted) in [
            ("nothing", "fix-a", "fix the test", clean, "fix-a", vec![]),
            (
                "in the name",
                &*format!("use {KEY} now"),
                "fix",
                clean,
                "use [secret] now",
                vec!["is called use [secret] now"],
            ),
            ("all of the name", KEY, "fix", clean, "[secret]", vec!["is called [secret] instead"]),
            ("in the prompt", "fix-a", &*prompt, clean, "fix-a", vec!["the prompt of a job holds a secret"]),
            ("in the workdir", "a", "fix", &*format!("/w/{KEY}"), "a", vec!["the workdir of a job holds a secret"]),
            ("what only looks like one", "a", "send password: hunter2", clean, "a", vec![]),
        ] {
            let (derived, spec, notes) = checked(name, prompt, workdir);
            assert_eq!(spec.name, expected, "{quirk}");
            assert_eq!((&*spec.prompt, &*spec.workdir.to_string_lossy()), (prompt, workdir), "{quirk}: as typed");
            assert_eq!(notes.len(), noted.len(), "{quirk}: {notes:?}");
            assert!(
                notes.iter().zip(noted).all(|(note, part)| note.contains(part) && !note.contains(KEY)),
                "{notes:?}"
            );
            assert!(!derived.contains(&KEY.to_ascii_lowercase()), "{quirk}: {derived}");
        }
        assert_eq!(checked("a", &prompt, clean).0, "try-secret-at-the");
        assert_eq!(checked("a", "use sk-ABCDEFGHIJKLMNOP1 there", clean).0, "use-sk-secret-there");
    }
}
