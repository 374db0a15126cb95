//! Every git that ukai runs is run here: the one that PATH names, in a clean environment, quiet (`quiet`), with a
//! deadline, with nothing on stdin, as the end of its own process tree.
//!
//! It runs outside of the sandbox, with the owner's rights, over folders that a model wrote to. So it is told by its
//! environment which repository is meant, and does not look for one there.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use ukai_protocol::{process, process_tree};

use super::quiet;
use crate::pool::reaper::Family;

/// Of what it prints; a name a line is the most that is asked for.
const STDOUT_BYTES_MAX: u64 = 1024 * 1024;
/// Of a list of all files of a repository: some millions of paths.
const LIST_BYTES_MAX: u64 = 512 * 1024 * 1024;
const STDERR_BYTES_MAX: u64 = 64 * 1024;
/// Of its words, in an error.
const SAID_CHARS_MAX: usize = 400;
/// Between two looks at whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// TERM lets it remove its locks.
const END_GRACE: Duration = Duration::from_secs(2);
/// For the end of its output after its own: somebody below it may hold the pipe.
const OUTPUT_GRACE: Duration = Duration::from_millis(500);
/// Another git holds a lock for milliseconds; one that was killed, for ever.
const LOCKED_TRIES_MAX: u32 = 20;
const LOCKED_PAUSE_MAX: Duration = Duration::from_millis(400);

/// How long what is done with git may take altogether, and whether anybody still wants it.
pub struct Patience<'a> {
    pub until: Instant,
    pub unwanted: &'a AtomicBool,
}

impl Patience<'_> {
    /// Why there is none left.
    pub fn check(&self) -> Result<(), String> {
        if self.unwanted.load(Ordering::Relaxed) {
            return Err("it was stopped".to_owned());
        }
        if Instant::now() >= self.until {
            return Err("it took too long".to_owned());
        }
        Ok(())
    }

    /// Lets a moment pass.
    pub fn wait(&self, moment: Duration) -> Result<(), String> {
        self.check()?;
        std::thread::sleep(moment.min(self.until.saturating_duration_since(Instant::now())));
        self.check()
    }
}

/// The program, found.
#[derive(Clone, Debug)]
pub struct Git {
    program: PathBuf,
    /// Of the supervisor; None: nobody here sweeps for orphans.
    family: Option<Family>,
}

/// Where it is run, and about what.
#[derive(Clone, Copy)]
pub struct Here<'a> {
    pub git: &'a Git,
    pub folder: &'a Path,
    /// The repository, where it is not the one that the folder lies in.
    pub of: Option<(&'a Path, &'a Path)>,
    pub settings: &'a [String],
    pub env: &'a [(&'static str, &'static str)],
    pub patience: &'a Patience<'a>,
}

struct Said {
    code: Option<i32>,
    stdout: Vec<u8>,
    stderr: String,
}

impl Git {
    pub fn find(family: Option<Family>) -> Result<Git, String> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        // A relative folder would be one of the repository's.
        let mut places =
            std::env::split_paths(&path).filter(|folder| folder.is_absolute()).map(|folder| folder.join("git"));
        let is_program = |place: &PathBuf| {
            place.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        };
        let program = places.find(is_program);
        let program = program.ok_or("there is no git in the folders of PATH; install it, or do without a worktree")?;
        Ok(Git { program, family })
    }
}

impl Here<'_> {
    /// What it prints, without the last line's end. An exit other than 0 is an error.
    pub fn ask(&self, args: &[&str]) -> Result<String, String> {
        let said = self.run(args)?;
        match said.code {
            Some(0) => {
                let text =
                    String::from_utf8(said.stdout).map_err(|_| format!("{} printed what is no text", named(args)))?;
                Ok(text.strip_suffix('\n').map(str::to_owned).unwrap_or(text))
            }
            _ => Err(said.failed(args)),
        }
    }

    /// All of a long list, as it is printed.
    pub fn list(&self, args: &[&str]) -> Result<Vec<u8>, String> {
        let said = self.run_for(args, LIST_BYTES_MAX)?;
        if said.code == Some(0) { Ok(said.stdout) } else { Err(said.failed(args)) }
    }

    /// Yes by exit 0, no by exit 1.
    pub fn holds(&self, args: &[&str]) -> Result<bool, String> {
        let said = self.run(args)?;
        match said.code {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => Err(said.failed(args)),
        }
    }

    /// What it says where it did not do all of it and went on (exit 1).
    pub fn as_far_as_it_goes(&self, args: &[&str]) -> Result<Option<String>, String> {
        let said = self.run(args)?;
        match said.code {
            Some(0) => Ok(None),
            Some(1) => Ok(Some(said.failed(args))),
            _ => Err(said.failed(args)),
        }
    }

    /// The settings that leave no filter here.
    pub fn without_filters(&self) -> Result<Vec<String>, String> {
        let said = self.run(&quiet::LIST)?;
        match said.code {
            Some(0 | 1) => {}
            _ => return Err(said.failed(&quiet::LIST)),
        }
        quiet::emptied(
            &String::from_utf8(said.stdout).map_err(|_| "git's configuration has a name that is no text; rename it")?,
        )
    }

    /// Again while another git holds a lock.
    fn run(&self, args: &[&str]) -> Result<Said, String> {
        self.run_for(args, STDOUT_BYTES_MAX)
    }

    fn run_for(&self, args: &[&str], bytes_max: u64) -> Result<Said, String> {
        let mut tries = 0;
        loop {
            let said = self.once(args, bytes_max).map_err(|why| format!("{}: {why}", named(args)))?;
            tries += 1;
            if said.code == Some(0) || !is_locked(&said.stderr) || tries >= LOCKED_TRIES_MAX {
                return Ok(said);
            }
            let pause = Duration::from_millis(20).saturating_mul(tries).min(LOCKED_PAUSE_MAX);
            self.patience.wait(pause).map_err(|why| format!("{why}; {}", said.failed(args)))?;
        }
    }

    fn once(&self, args: &[&str], bytes_max: u64) -> Result<Said, String> {
        self.patience.check()?;
        let fault = |error: io::Error| format!("{error} ({})", self.git.program.display());
        let start = || process::start(self.start(args));
        let mut child = match self.git.family {
            Some(family) => family.start(start, Child::id),
            None => start(),
        }
        .map_err(fault)?;
        let ended = self.followed(&mut child, bytes_max);
        let pid = child.id();
        if ended.is_err() {
            // Nothing of it may go on in the folder, and none of its locks stay.
            let whole = process::mark(pid).map_or(Ok(()), |mark| process_tree::end(&mark, END_GRACE));
            if let Err(error) = whole {
                tracing::error!(pid, %error, "a git that took too long could not be ended");
            }
            // It is a zombie at most.
            if let Err(error) = child.wait() {
                tracing::error!(pid, %error, "the exit of a git could not be read");
            }
        }
        if let Some(family) = self.git.family {
            family.reaped(pid);
        }
        ended
    }

    fn followed(&self, child: &mut Child, bytes_max: u64) -> Result<Said, String> {
        let stdout = kept(child.stdout.take(), bytes_max);
        let stderr = kept(child.stderr.take(), STDERR_BYTES_MAX);
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) => self.patience.wait(LOOK_EVERY)?,
                Err(error) => return Err(error.to_string()),
            }
        };
        let text = |kept: mpsc::Receiver<io::Result<Vec<u8>>>| match kept.recv_timeout(OUTPUT_GRACE) {
            Ok(read) => read.map_err(|error| error.to_string()),
            Err(_) => Err("its output does not end".to_owned()),
        };
        let stdout = text(stdout)?;
        if stdout.len() as u64 > bytes_max {
            return Err(format!("it printed more than {bytes_max} bytes"));
        }
        Ok(Said { code: status.code(), stdout, stderr: String::from_utf8_lossy(&text(stderr)?).into_owned() })
    }

    fn start(&self, args: &[&str]) -> process::Start {
        let mut all: Vec<OsString> = vec!["--no-pager".into()];
        for setting in quiet::SWITCHES.into_iter().chain(self.settings.iter().map(String::as_str)) {
            all.push("-c".into());
            all.push(setting.into());
        }
        all.extend(args.iter().map(OsString::from));
        // None of git's own variables is among them.
        let mut env = process::own_environment();
        env.retain(|(name, _)| name != "LC_ALL" && name != "LANG");
        let mut say = |name: &str, value: &OsStr| env.push((name.into(), value.into()));
        say("LC_ALL", OsStr::new("C"));
        say("GIT_TERMINAL_PROMPT", OsStr::new("0"));
        say("GIT_OPTIONAL_LOCKS", OsStr::new("0"));
        say("GIT_NO_LAZY_FETCH", OsStr::new("1"));
        say("GIT_ATTR_NOSYSTEM", OsStr::new("1"));
        if let Some((git_dir, work_tree)) = self.of {
            say("GIT_DIR", git_dir.as_os_str());
            say("GIT_WORK_TREE", work_tree.as_os_str());
        }
        self.env.iter().for_each(|(name, value)| say(name, OsStr::new(value)));
        process::Start {
            program: self.git.program.clone(),
            args: all,
            env,
            workdir: Some(self.folder.to_owned()),
            stdin: process::Stdin::Null,
            stdout: Stdio::piped(),
            stderr: Stdio::piped(),
        }
    }
}

impl Said {
    fn failed(&self, args: &[&str]) -> String {
        let how = self.code.map_or_else(|| "was killed".to_owned(), |code| format!("failed ({code})"));
        let mut said: String = self.stderr.trim().replace('\n', "; ").chars().take(SAID_CHARS_MAX).collect();
        if !said.is_empty() {
            said.insert_str(0, ": ");
        }
        format!("{} {how}{said}", named(args))
    }
}

/// The first words tell which it was.
fn named(args: &[&str]) -> String {
    let words = args.iter().take_while(|word| !word.starts_with('-')).take(2).copied().collect::<Vec<_>>();
    format!("git {}", words.join(" "))
}

/// All that comes is read, so that nobody waits for us; the first bytes are kept, and one more tells that there were more.
fn kept(pipe: Option<impl Read + Send + 'static>, bytes_max: u64) -> mpsc::Receiver<io::Result<Vec<u8>>> {
    let (send, receive) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = pipe.map_or(Ok(()), |mut pipe| {
            pipe.by_ref().take(bytes_max + 1).read_to_end(&mut bytes)?;
            io::copy(&mut pipe, &mut io::sink()).map(drop)
        });
        // Whoever asked may have stopped waiting.
        let _ = send.send(read.map(|()| bytes));
    });
    receive
}

fn is_locked(stderr: &str) -> bool {
    stderr.contains(".lock': File exists") || stderr.contains("Another git process seems to be running")
}
