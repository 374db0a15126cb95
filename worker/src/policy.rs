//! `ukai-worker policy check`: what a policy would say of calls, for a person who wants to know before a job does.
//!
//! The judge is the one of jobs, bound to the same places: nothing here decides. What is added is what a job has no use
//! for: all rules that are wrong and not only the first.

mod faults;
#[cfg(test)]
mod tests;
mod verdict;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ukai_protocol::one_shot::{PolicyAnswer, PolicyRequest};
use ukai_protocol::policy::Policy;

use crate::permission::Permission;
use crate::tool::Registry;
use crate::{EX_USAGE, USAGE, fail, one_shot};

pub(crate) fn main(args: Vec<OsString>) -> ExitCode {
    if args != ["check"] {
        return fail(EX_USAGE, &format!("policy takes `check` and nothing else\n{USAGE}"));
    }
    let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from);
    one_shot::serve(|request| answer(&request, &home))
}

fn answer(request: &PolicyRequest, home: &Path) -> PolicyAnswer {
    let bind = |policy: &Policy| Permission::new(policy, &request.workdir, home, &request.outputs);
    let permission = bind(&request.policy);
    let broken = permission.broken().map(str::to_owned);
    let faults = if broken.is_some() { faults::of(&request.policy, bind) } else { Vec::new() };
    let tools = Registry::new(&request.tools);
    let verdict = |call| verdict::on(call, &request.policy, &tools, &permission);
    PolicyAnswer { verdicts: request.calls.iter().map(verdict).collect(), broken, faults }
}
