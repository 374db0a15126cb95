//! A command in a session of its own, started by `posix_spawn`.
//!
//! The standard library starts processes so, too, but can give a child no session without running code between fork and
//! exec, for which the whole process would have to be copied.

#![allow(unsafe_code, reason = "posix_spawn with a session has no safe wrapper; each call says what it relies on")]

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::ptr;

use nix::libc;

use super::words::Start;

/// What a command has on its descriptors 0 to 2.
#[derive(Clone, Copy)]
pub struct Stdio<'a> {
    /// None: nothing, and at once its end.
    pub stdin: Option<BorrowedFd<'a>>,
    pub stdout: BorrowedFd<'a>,
    pub stderr: BorrowedFd<'a>,
}

/// Starts it. Returns its pid, which is its session's, too.
pub fn spawn(what: &Start, stdio: Stdio<'_>) -> io::Result<u32> {
    let text = |bytes: &[u8]| CString::new(bytes).map_err(|_| io::Error::other("a NUL in a command"));
    let program = text(what.program.as_os_str().as_bytes())?;
    let workdir = text(what.workdir.as_os_str().as_bytes())?;
    let args: Vec<CString> = what.args.iter().map(|arg| text(arg.as_bytes())).collect::<io::Result<_>>()?;
    let env: Vec<CString> =
        what.env.iter().map(|(name, value)| text(format!("{name}={value}").as_bytes())).collect::<io::Result<_>>()?;
    let argv = pointers(&args);
    let envp = pointers(&env);

    let mut attributes = Attributes::new()?;
    attributes.own_session_and_no_signals()?;
    let mut actions = Actions::new()?;
    let null = c"/dev/null";
    let mut pid: libc::pid_t = 0;
    // SAFETY: actions, attributes and all strings live until the call returns; both arrays end in a null pointer.
    let error = unsafe {
        let actions_at = actions.0.as_mut_ptr();
        first_error([
            match stdio.stdin {
                Some(stdin) => libc::posix_spawn_file_actions_adddup2(actions_at, stdin.as_raw_fd(), 0),
                None => libc::posix_spawn_file_actions_addopen(actions_at, 0, null.as_ptr(), libc::O_RDONLY, 0),
            },
            libc::posix_spawn_file_actions_adddup2(actions_at, stdio.stdout.as_raw_fd(), 1),
            libc::posix_spawn_file_actions_adddup2(actions_at, stdio.stderr.as_raw_fd(), 2),
            libc::posix_spawn_file_actions_addchdir_np(actions_at, workdir.as_ptr()),
        ])?;
        libc::posix_spawn(&mut pid, program.as_ptr(), actions_at, attributes.0.as_ptr(), argv.as_ptr(), envp.as_ptr())
    };
    check(error)?;
    Ok(pid.cast_unsigned())
}

fn pointers<'a>(strings: impl IntoIterator<Item = &'a CString>) -> Vec<*mut libc::c_char> {
    strings.into_iter().map(|string| string.as_ptr().cast_mut()).chain([ptr::null_mut()]).collect()
}

fn check(error: libc::c_int) -> io::Result<()> {
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

fn first_error<const N: usize>(errors: [libc::c_int; N]) -> io::Result<()> {
    errors.into_iter().try_for_each(check)
}

struct Attributes(MaybeUninit<libc::posix_spawnattr_t>);

impl Attributes {
    fn new() -> io::Result<Self> {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: it initialises what it is given; only then is the value made, whose drop destroys it.
        check(unsafe { libc::posix_spawnattr_init(attributes.as_mut_ptr()) })?;
        Ok(Attributes(attributes))
    }

    /// The child begins as if from a shell: nothing ignored, nothing blocked.
    fn own_session_and_no_signals(&mut self) -> io::Result<()> {
        let flags = i32::from(libc::POSIX_SPAWN_SETSID) | libc::POSIX_SPAWN_SETSIGDEF | libc::POSIX_SPAWN_SETSIGMASK;
        let mut none = MaybeUninit::uninit();
        let mut all = MaybeUninit::uninit();
        // SAFETY: the sets are initialised by the first two calls before anything reads them, and copied by the others.
        unsafe {
            libc::sigemptyset(none.as_mut_ptr());
            libc::sigfillset(all.as_mut_ptr());
            // These cannot be set, and asking for it is an error of some C libraries.
            libc::sigdelset(all.as_mut_ptr(), libc::SIGKILL);
            libc::sigdelset(all.as_mut_ptr(), libc::SIGSTOP);
            first_error([
                libc::posix_spawnattr_setsigmask(self.0.as_mut_ptr(), none.as_ptr()),
                libc::posix_spawnattr_setsigdefault(self.0.as_mut_ptr(), all.as_ptr()),
                // The flags are a word of 16 bits of which these use 8.
                libc::posix_spawnattr_setflags(self.0.as_mut_ptr(), flags as libc::c_short),
            ])
        }
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: initialised by `new`, destroyed once.
        unsafe { libc::posix_spawnattr_destroy(self.0.as_mut_ptr()) };
    }
}

struct Actions(MaybeUninit<libc::posix_spawn_file_actions_t>);

impl Actions {
    fn new() -> io::Result<Self> {
        let mut actions = MaybeUninit::uninit();
        // SAFETY: as above.
        check(unsafe { libc::posix_spawn_file_actions_init(actions.as_mut_ptr()) })?;
        Ok(Actions(actions))
    }
}

impl Drop for Actions {
    fn drop(&mut self) {
        // SAFETY: initialised by `new`, destroyed once.
        unsafe { libc::posix_spawn_file_actions_destroy(self.0.as_mut_ptr()) };
    }
}
