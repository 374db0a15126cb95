//! The commands of a job: one place that knows the host, what confines them, their environment, and which go on in the
//! background.

mod confine;
pub mod environment;
mod guard;
mod look;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use ukai_protocol::id::JobId;
use ukai_protocol::job::JobSpec;

use super::background::Background;
use crate::host::words::Start;
use crate::host::{Host, Running, tree};
use crate::permission::Permission;
use crate::sandbox::{self, Held};
use guard::Guard;
pub use guard::Notice;

/// Commands in the background at a time: each has a thread that listens to it.
pub const BACKGROUND_MAX: usize = 8;
/// Where a shell is looked for; the owner's PATH is for what it runs.
pub const SHELLS: [&str; 4] = ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/run/current-system/sw/bin/bash"];

/// All that commands of one job have in common.
pub struct Shells {
    /// None: in a process that starts no commands.
    host: Option<(Host, About)>,
    /// What every command finds in its environment, known at the first.
    env: OnceLock<Vec<(String, String)>>,
    started: AtomicU64,
    /// Numbers of commands in the background, up to the last that was given out.
    named: AtomicU64,
    /// Up to here they are of earlier processes of this job: what those had started has ended with them.
    named_before: u64,
    opened: OnceLock<Vec<PathBuf>>,
    background: Mutex<BTreeMap<String, Arc<Background>>>,
    /// None: nothing has been confined, or nothing will be.
    guard: Mutex<Option<Guard>>,
    /// What who watches has not been told.
    unsaid: Mutex<Vec<Notice>>,
}

/// What of a job its commands depend on.
pub struct About {
    pub job: JobId,
    pub spec: JobSpec,
    /// An earlier process has begun it.
    pub goes_on: bool,
    pub permission: Arc<Permission>,
    /// Of the job's own folder, where only its worker writes.
    pub outputs: PathBuf,
    /// What the supervisor passes on besides the usual.
    pub env: Vec<(String, String)>,
    /// From TERM to KILL.
    pub grace: Duration,
    /// How many calls the log knows: no more commands can have been named before.
    pub calls_before: u64,
}

impl About {
    /// The job's own folder.
    fn run(&self) -> &Path {
        self.outputs.parent().unwrap_or(&self.outputs)
    }

    /// Since when an earlier process may have run commands, if there was one.
    fn earlier(&self) -> Option<SystemTime> {
        // The first that may start any makes this folder, and what ends the job removes it. A file system that does not know
        // when its files were made leaves untold what those commands made.
        self.goes_on.then(|| std::fs::metadata(self.temp()).and_then(|temp| temp.created()).ok()).flatten()
    }

    /// Where commands may leave what nobody needs.
    fn temp(&self) -> PathBuf {
        crate::permission::places::temp_of(&self.outputs)
    }
}

impl Shells {
    #[must_use]
    pub fn new(host: Host, about: About) -> Self {
        let named_before = about.calls_before;
        Shells { host: Some((host, about)), named: AtomicU64::new(named_before), named_before, ..Shells::none() }
    }

    /// For a process that starts no commands.
    #[must_use]
    pub fn none() -> Self {
        Shells {
            host: None,
            env: OnceLock::new(),
            started: AtomicU64::new(0),
            named: AtomicU64::new(0),
            named_before: 0,
            opened: OnceLock::new(),
            background: Mutex::default(),
            guard: Mutex::default(),
            unsaid: Mutex::default(),
        }
    }

    /// From TERM to KILL.
    #[must_use]
    pub fn grace(&self) -> Duration {
        self.host.as_ref().map_or(Duration::ZERO, |(_, about)| about.grace)
    }

    /// Starts a command line in the workdir. The error is for the model.
    pub fn start(&self, command: &str) -> Result<Running, String> {
        let bash =
            bash().ok_or("there is no bash on this machine, and a command is judged as bash reads it; install it")?;
        self.enter()?;
        let (host, about) = self.host.as_ref().ok_or(NO_HOST)?;
        let args = ["bash", "--noprofile", "--norc", "-c", command].map(str::to_owned).to_vec();
        let start = self.order(about, bash.to_owned(), args);
        host.start(start).map_err(|error| format!("the command could not be started: {error}"))
    }

    /// Starts a program of the owner's in the workdir, confined like any command line, with this on its stdin. The error is
    /// for the model.
    pub fn start_program(&self, command: &[String], stdin: BorrowedFd<'_>) -> Result<Running, String> {
        self.enter()?;
        let (host, about) = self.host.as_ref().ok_or(NO_HOST)?;
        let program = find_program(command.first().map_or("", String::as_str), self.env(about))?;
        let start = self.order(about, program, command.to_vec());
        host.start_apart(start, stdin).map_err(|error| format!("the command could not be started: {error}"))
    }

    /// The same for all commands of a job.
    fn env(&self, about: &About) -> &[(String, String)] {
        self.env.get_or_init(|| environment::of(about, &about.temp()))
    }

    fn order(&self, about: &About, program: PathBuf, args: Vec<String>) -> Start {
        let number = self.started.fetch_add(1, Ordering::Relaxed) + 1;
        let mut env = self.env(about).to_vec();
        env.push((tree::MARK.to_owned(), format!("{}/{number}", about.job)));
        Start { program, args, env, workdir: about.permission.places().real_workdir().to_owned() }
    }

    /// Whether commands can be confined at all. Costs nothing where Landlock alone suffices: then nothing is entered yet.
    pub fn check(&self) -> Result<(), String> {
        let Some((_, about)) = &self.host else { return Ok(()) };
        if !about.spec.policy.sandbox.on || sandbox::landlock_abi() >= sandbox::LANDLOCK_ABI_MIN {
            return Ok(());
        }
        self.enter().map(drop)
    }

    /// Has the host confine itself, at the first command. What then holds, or why no command will ever start.
    pub fn enter(&self) -> Result<Held, String> {
        let (host, about) = self.host.as_ref().ok_or(NO_HOST)?;
        let temp = about.temp();
        // Nothing in it outlives the job, so nothing is made durable; an earlier command has made it, or even removed it.
        if let Err(error) = ukai_protocol::disk::create_dir_within(&temp)
            && !temp.is_dir()
        {
            return Err(format!("the job's folder for temporary files, {}: {error}", temp.display()));
        }
        let mut is_first = false;
        let held = host.enter(|| {
            is_first = true;
            about.spec.policy.sandbox.on.then(|| {
                let (guard, closed, said) = Guard::begin(&about.permission, confine::own(about), about.earlier());
                locked(&self.unsaid).extend(said);
                *locked(&self.guard) = Some(guard);
                confine::of(about, &temp, self.opened(), closed)
            })
        })?;
        if is_first && !held.missing.is_empty() {
            let missing = held.missing.join("; ");
            locked(&self.unsaid).push(Notice::note(format!("its commands are confined without: {missing}")));
        }
        Ok(held)
    }

    /// Looks for what came to be where a rule denies it; what is to be said of that, if anything. Blocks.
    pub fn look_after(&self) -> Option<String> {
        let (_, about) = self.host.as_ref()?;
        let said = locked(&self.guard).as_mut()?.check(&about.permission);
        let text = said.iter().map(|said| said.text.clone()).collect::<Vec<_>>().join("; ");
        locked(&self.unsaid).extend(said);
        (!text.is_empty()).then_some(text)
    }

    /// What who watches should know and has not been told. Nothing, as long as nothing was started.
    pub fn notices(&self) -> Vec<Notice> {
        if self.has_started() { std::mem::take(&mut *locked(&self.unsaid)) } else { Vec::new() }
    }

    /// What commands may read besides workdir and outputs. Looked up once: a worker that has confined itself could not.
    pub fn opened(&self) -> &[PathBuf] {
        self.opened.get_or_init(|| self.host.as_ref().map(|(_, about)| confine::opened(about)).unwrap_or_default())
    }

    /// The folder for temporary files, made beforehand for a worker that may soon make none there. It needs to survive no
    /// crash, so that nothing is synced.
    pub fn make_temp(&self) -> io::Result<Option<PathBuf>> {
        let Some((_, about)) = &self.host else { return Ok(None) };
        let temp = about.temp();
        match std::fs::DirBuilder::new().mode(0o700).create(&temp) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(Some(temp)),
        }
    }

    /// Takes a command into the background and names it, as no other of this job was ever named: the model may still ask
    /// for one of an earlier process.
    pub fn keep(&self, running: Running, outputs: &Path) -> Result<String, String> {
        let mut background = self.background();
        background.retain(|_, shell| !shell.is_over_and_told());
        if background.len() >= BACKGROUND_MAX {
            let names: Vec<&str> = background.keys().map(String::as_str).collect();
            let names = names.join(", ");
            return Err(format!(
                "{BACKGROUND_MAX} commands are in the background already ({names}); read or end one of them first"
            ));
        }
        let shell = Background::listen(running, outputs, self.grace())
            .map_err(|error| format!("the command could not be listened to and was ended: {error}"))?;
        let name = format!("{NAMES}{}", self.named.fetch_add(1, Ordering::Relaxed) + 1);
        background.insert(name.clone(), shell);
        Ok(name)
    }

    /// One that is in the background; the error names those that are.
    pub fn find(&self, name: &str) -> Result<Arc<Background>, String> {
        let background = self.background();
        background.get(name).cloned().ok_or_else(|| {
            let names: Vec<&str> = background.keys().map(String::as_str).collect();
            let there =
                if names.is_empty() { "There is none".to_owned() } else { format!("There are {}", names.join(", ")) };
            match self.is_of_before(name) {
                true => format!(
                    "{name} has ended, and what it said is gone: this job has been paused or started again since, and \
                     whatever ran in the background ended then. {there}. Start it again if it is still needed."
                ),
                false => format!("no command in the background has the id `{name}`. {there}."),
            }
        })
    }

    /// Whether an earlier process of this job may have named a command so.
    fn is_of_before(&self, name: &str) -> bool {
        let number = name.strip_prefix(NAMES).and_then(|number| number.parse().ok());
        number.is_some_and(|number: u64| (1..=self.named_before).contains(&number))
    }

    /// Whether anything was ever started.
    #[must_use]
    pub fn has_started(&self) -> bool {
        self.started.load(Ordering::Relaxed) > 0
    }

    /// Whether something may still run that this process would take along.
    #[must_use]
    pub fn any_lives(&self) -> bool {
        self.has_started()
    }

    /// Ends all that was started and still lives. Blocks.
    pub fn end_all(&self) -> io::Result<()> {
        let Some((host, about)) = self.host.as_ref().filter(|_| self.has_started()) else { return Ok(()) };
        let ended = host.end_all(about.grace);
        self.look_after();
        ended
    }

    /// At the end of the job: takes away what its commands left in the temporary folder.
    pub fn remove_temp(&self) -> io::Result<()> {
        let Some((_, about)) = &self.host else { return Ok(()) };
        match std::fs::remove_dir_all(about.temp()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Comes back with the reason when nothing can be started any more, since the host has died. For a runtime.
    pub async fn lost(&self) -> String {
        let Some((host, _)) = &self.host else { return std::future::pending().await };
        match host.gone().await {
            Ok(()) => "the tool host has died, and all that it had started with it".to_owned(),
            // Whether it lives cannot be known then, which is no better.
            Err(error) => format!("the tool host cannot be watched: {error}"),
        }
    }

    /// The end of the host, and of everything with it; nothing can be started any more. Blocks until it is gone.
    pub fn close(&self) {
        let Some((host, about)) = &self.host else { return };
        host.close();
        if !self.has_started() {
            // Nobody has put anything there. One that is not there, or that cannot be removed, hurts nobody.
            let _ = std::fs::remove_dir(about.temp());
        }
    }

    fn background(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Background>>> {
        locked(&self.background)
    }
}

/// An absolute path, or a name that is looked for where commands look.
fn find_program(program: &str, env: &[(String, String)]) -> Result<PathBuf, String> {
    if program.starts_with('/') {
        return Ok(PathBuf::from(program));
    }
    let path = env.iter().find(|(name, _)| name == "PATH").map_or("", |(_, value)| value.as_str());
    let places = path.split(':').filter(|folder| folder.starts_with('/')).map(|folder| Path::new(folder).join(program));
    let found = places.filter(|_| !program.is_empty()).find(|place| place.is_file());
    found.ok_or_else(|| format!("there is no program `{program}` in {path}; a person has to install it"))
}

/// Whoever broke down while it was held has left nothing half done in it.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The shell of this machine, if it has one.
#[must_use]
pub fn bash() -> Option<&'static Path> {
    SHELLS.iter().map(Path::new).find(|path| path.is_file())
}

const NAMES: &str = "bash_";
const NO_HOST: &str = "this process starts no commands";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_of_an_earlier_process_is_told_from_one_that_never_was() {
        let shells = Shells { named: AtomicU64::new(3), named_before: 3, ..Shells::none() };
        for (name, part) in [
            ("bash_3", "bash_3 has ended"),
            ("bash_1", "There is none. Start it again"),
            ("bash_4", "no command in the background has the id `bash_4`"),
            ("bash_0", "no command"),
            ("shell_1", "no command"),
            ("", "no command"),
        ] {
            let why = shells.find(name).err().unwrap_or_default();
            assert!(why.contains(part), "{name}: {why}");
        }
    }
}
