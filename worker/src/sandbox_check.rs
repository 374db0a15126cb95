//! `ukai-worker sandbox`: what would confine the commands of a job on this machine, for `ukai doctor`.
//!
//! The kernel is not believed by its version: a host is forked and confined as a job's would be, and the parts are tried
//! one by one in this process, which gives itself up for it. So what is said is what a job will meet.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ukai_protocol::one_shot::{SandboxAnswer, SandboxRequest};
use ukai_protocol::policy::Sandbox;

use crate::host::{self, Begun, Host};
use crate::sandbox::{self, Confine, Held, LANDLOCK_ABI_MIN, Reach};
use crate::tool::shells::{self, environment};
use crate::{EX_USAGE, USAGE, fail, one_shot};

/// Nobody waits for the answer any more, or it cannot be given.
const EX_UNHEARD: u8 = 1;

pub(crate) fn main(args: Vec<OsString>) -> ExitCode {
    if !args.is_empty() {
        return fail(EX_USAGE, &format!("sandbox takes no arguments\n{USAGE}"));
    }
    match host::begin() {
        Ok(Begun::Worker(host)) => one_shot::serve(|request: SandboxRequest| answer(request, &host)),
        Ok(Begun::Host(host)) => host.serve(),
        Err(error) => fail(EX_UNHEARD, &format!("the tool host did not start: {error}")),
    }
}

fn answer(SandboxRequest { sandbox, workdir }: SandboxRequest, host: &Host) -> SandboxAnswer {
    let confine = Confine { network: sandbox.network, ..Confine::default() };
    let hidden_programs = hidden_programs(&sandbox, &workdir);
    let entered = host.enter(|| Some(confine.clone()));
    host.close();
    // The namespaces before the filter, which forbids to make any.
    let (landlock_abi, namespaces) = (sandbox::landlock_abi(), sandbox::granted());
    let seccomp = sandbox::seccomp();
    let entered = entered.and_then(|held| goes_without(held, &confine));
    // Last: it can be taken back no more than the others.
    let worker = sandbox::confine_worker(&Reach::default()).map_err(|error| error.to_string());
    SandboxAnswer {
        landlock_abi,
        landlock_abi_min: LANDLOCK_ABI_MIN,
        namespaces,
        seccomp,
        worker,
        entered,
        bash: shells::bash().map(PathBuf::from),
        bash_places: shells::SHELLS.map(PathBuf::from).to_vec(),
        hidden_programs,
    }
}

/// Looked up before this process gives itself up: then it could not look.
fn hidden_programs(sandbox: &Sandbox, workdir: &Path) -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).filter(|folder| !environment::may_run(folder, &home, workdir, sandbox)).collect()
}

/// What could not be had. Without namespaces a host leaves it to each command to confine itself: so does this process.
fn goes_without(held: Held, confine: &Confine) -> Result<Vec<String>, String> {
    let Held { namespaces, mut missing, .. } = held;
    if !namespaces {
        sandbox::confine(confine, false, &mut missing).map_err(|error| error.to_string())?;
    }
    Ok(missing)
}
