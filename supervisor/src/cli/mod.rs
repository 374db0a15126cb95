//! The `ukai` command: what can be typed, and which verb does it. One verb per file, named for it.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser, Subcommand, ValueEnum};

// The verbs.
mod ack;
mod approve;
mod attach;
mod cancel;
mod completions;
mod demo;
mod deny;
mod doctor;
mod logs;
mod ls;
mod notify;
mod pause;
mod policy;
mod providers;
mod quarantine;
mod report;
mod results;
mod resume;
mod run;
mod script;
mod serve;
mod show;
mod submit;
mod unpause;

// What several of them need.
mod attention;
mod client;
mod context;
mod failure;
mod follow;
mod job;
mod json;
mod offline;
mod one_shot;
mod print;
pub(crate) mod progress;
mod records;
mod signals;
mod sinks;
mod table;
mod tally;
mod which;
mod words;
mod worktree;

use context::Context;
use failure::Failure;
pub(crate) use print::note;

/// Runs many AI agent jobs in parallel on one machine, unattended.
#[derive(Debug, Parser)]
#[command(name = "ukai", version, propagate_version = true, arg_required_else_help = true)]
struct Ukai {
    #[command(flatten)]
    global: Global,
    /// The same as the verb `ack`, by itself or before another verb; can be given several times
    #[arg(long, value_name = "ID")]
    ack_run_state: Vec<String>,
    #[command(subcommand)]
    verb: Option<Verb>,
}

impl Ukai {
    /// What is to be done: a verb, the flag that stands for one, or both, and then what the flag says first.
    fn meant(self) -> Result<Meant, clap::Error> {
        let Ukai { global, ack_run_state: what, verb } = self;
        let refuse = |kind, why: &str| Err(Ukai::command().error(kind, why));
        let ack = |what| ack::Args { what, all: false };
        match verb {
            Some(verb) if what.is_empty() => Ok(Meant { global, first: None, verb }),
            Some(Verb::Demo(_) | Verb::Script(_) | Verb::Completions(_)) => {
                refuse(ErrorKind::ArgumentConflict, "--ack-run-state goes with no verb that knows nothing of your jobs")
            }
            Some(verb) => Ok(Meant { global, first: Some(ack(what)), verb }),
            None if what.is_empty() => {
                refuse(ErrorKind::MissingSubcommand, "a verb is missing; `ukai help` lists them")
            }
            None => Ok(Meant { global, first: None, verb: Verb::Ack(ack(what)) }),
        }
    }
}

struct Meant {
    global: Global,
    /// What a person says to have seen, before the verb.
    first: Option<ack::Args>,
    verb: Verb,
}

/// After what a verb itself takes.
const GLOBAL: &str = "Global options";

#[derive(Debug, clap::Args)]
pub(crate) struct Global {
    /// The configuration [default: $UKAI_CONFIG, else $XDG_CONFIG_HOME/ukai/ukai.toml]
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// How to print
    #[arg(long, global = true, help_heading = GLOBAL, value_enum, value_name = "FORMAT", default_value_t = Output::Text)]
    pub output: Output,
    /// Where jobs and their logs are kept [default: $XDG_STATE_HOME/ukai]
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Text,
    Json,
    StreamJson,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// See it work: eight jobs on the files here, one worker killed; needs no key
    Demo(demo::Args),
    /// Run jobs as they are submitted, until told to stop
    Serve,
    /// Run jobs now, show their progress and end as they end
    #[command(after_help = run::EXIT_CODES)]
    Run(run::Args),
    /// Queue jobs at the running server and print their ids
    Submit(submit::Args),
    /// Print what became of a list, a row for each line
    Results(results::Args),
    /// List the jobs
    Ls(ls::Args),
    /// Show one job
    Show(show::Args),
    /// Print what happened to jobs so far
    Logs(logs::Args),
    /// Watch jobs to their ends: what happened so far, then what happens
    Attach(attach::Args),
    /// Let a call pass that waits for you
    Approve(approve::Args),
    /// Forbid a call that waits for you
    Deny(deny::Args),
    /// End jobs, with everything that they started
    Cancel(which::Which),
    /// Let jobs finish the call under way and then wait, without a process
    Pause(which::Which),
    /// Let paused jobs go on
    Unpause(which::Which),
    /// Go on with jobs that were aborted or cancelled; shows why first, and asks
    Resume(resume::Args),
    /// Say that you have seen why a job needed attention
    Ack(ack::Args),
    /// See whether alerts arrive
    #[command(subcommand)]
    Notify(notify::Verb),
    /// List what was put aside because it does not verify, and go on without it
    Quarantine(quarantine::Args),
    /// See how providers stand, ask them, or believe in them again
    Providers(providers::Args),
    /// Show what a job may do here, ask what becomes of a call, and test a policy
    Policy(policy::Args),
    /// Six figures of a period against the one before, and a Go/No-Go page
    Report(report::Args),
    /// Say what is in force here, where it comes from and what is missing
    Doctor,
    /// Play a scripted provider over HTTP
    #[command(subcommand)]
    Script(script::Verb),
    /// Print completions for a shell
    Completions(completions::Args),
}

/// What the process does, from the command line to its exit code.
pub(crate) fn main() -> ExitCode {
    let meant = match Ukai::try_parse().and_then(Ukai::meant) {
        Ok(typed) => typed,
        Err(error) => {
            // Help goes to stdout and is no failure; a closed pipe there is none either.
            let printed = error.print();
            if error.use_stderr() {
                return ExitCode::from(failure::USAGE);
            }
            print::written(printed);
            return ExitCode::from(unless_lost(0));
        }
    };
    let code = perform(meant).unwrap_or_else(|Failure { code, text }| {
        print::note(&format!("ukai: {text}"));
        code
    });
    ExitCode::from(unless_lost(code))
}

/// Whatever the verb did: who reads its output must not take a part for the whole.
fn unless_lost(code: u8) -> u8 {
    let Some(error) = print::lost() else { return code };
    print::note(&format!("ukai: writing to stdout: {error}; the output is incomplete: send it elsewhere"));
    failure::FAILED
}

fn perform(Meant { global, first, verb }: Meant) -> Result<u8, Failure> {
    let verb = match verb {
        Verb::Completions(args) => return Ok(completions::completions(&args)),
        Verb::Script(verb) => return script::script(verb),
        verb => verb,
    };
    log_to_stderr(&verb);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error: io::Error| Failure::failed(format!("starting the runtime: {error}")))?;
    if let Verb::Demo(args) = &verb {
        return runtime.block_on(demo::demo(global, args));
    }
    let context = Context::new(global)?;
    runtime.block_on(async {
        if let Some(seen) = first {
            ack::ack_before(&context, seen).await?;
        }
        attention::banner(&context).await;
        if matches!(verb, Verb::Run(_) | Verb::Submit(_) | Verb::Resume(_) | Verb::Providers(_)) {
            client::Client::warn_of_another_configuration(&context).await?;
        }
        match verb {
            Verb::Serve => serve::serve(&context).await,
            Verb::Run(args) => run::run(&context, args).await,
            Verb::Submit(args) => submit::submit(&context, args).await,
            Verb::Results(args) => results::results(&context, &args).await,
            Verb::Ls(args) => ls::ls(&context, args).await,
            Verb::Show(args) => show::show(&context, &args).await,
            Verb::Logs(args) => logs::logs(&context, &args).await,
            Verb::Approve(args) => approve::approve(&context, args).await,
            Verb::Deny(args) => deny::deny(&context, args).await,
            Verb::Attach(args) => attach::attach(&context, &args).await,
            Verb::Cancel(which) => cancel::cancel(&context, which).await,
            Verb::Pause(which) => pause::pause(&context, which).await,
            Verb::Unpause(which) => unpause::unpause(&context, which).await,
            Verb::Resume(args) => resume::resume(&context, args).await,
            Verb::Ack(args) => ack::ack(&context, args).await,
            Verb::Notify(verb) => notify::notify(&context, &verb).await,
            Verb::Quarantine(args) => quarantine::quarantine(&context, args),
            Verb::Providers(args) => providers::providers(&context, args).await,
            Verb::Report(args) => report::report(&context, &args),
            Verb::Policy(args) => policy::policy(&context, args).await,
            Verb::Doctor => doctor::doctor(&context).await,
            Verb::Demo(_) | Verb::Script(_) | Verb::Completions(_) => Ok(0),
        }
    })
}

/// `UKAI_LOG` takes what tracing's filters take. Verbs for people say little by themselves, and tell by their own means
/// what an alert is about. Of ractor nothing is lost but the actors' numbers before each line.
fn log_to_stderr(verb: &Verb) {
    let default = match verb {
        Verb::Serve => "info,ractor=off",
        // Its log is the sink that is tested.
        Verb::Notify(_) => "error,ukai::alert=info,ractor=off",
        _ => "error,ukai::alert=off,ractor=off",
    };
    let filter = tracing_subscriber::EnvFilter::try_from_env("UKAI_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(default));
    let log = tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(false).with_env_filter(filter);
    // A second call in one process (tests) finds a log already there, which is what is wanted.
    let _ = log.try_init();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_that_stands_for_a_verb_takes_one_id_and_leaves_the_verb() {
        let meant = |typed: &str| Ukai::try_parse_from(typed.split(' ')).and_then(Ukai::meant);
        for (typed, first, verb) in [
            ("ukai ls", None, "Ls"),
            ("ukai --ack-run-state j-1", None, "Ack(Args { what: [\"j-1\"]"),
            ("ukai --ack-run-state j-1 --ack-run-state=j-2", None, "Ack(Args { what: [\"j-1\", \"j-2\"]"),
            ("ukai --ack-run-state j-1 ls", Some(vec!["j-1"]), "Ls"),
            (
                "ukai --ack-run-state j-1 --ack-run-state j-2 show j-3",
                Some(vec!["j-1", "j-2"]),
                "Show(Args { job: \"j-3\"",
            ),
            ("ukai --ack-run-state j-1 ack j-2", Some(vec!["j-1"]), "Ack(Args { what: [\"j-2\"]"),
        ] {
            let Meant { first: before, verb: after, .. } =
                meant(typed).unwrap_or_else(|error| panic!("{typed}: {error}"));
            assert_eq!(
                before.map(|args| args.what),
                first.map(|ids| ids.iter().map(|id| (*id).to_owned()).collect()),
                "{typed}"
            );
            assert!(format!("{after:?}").starts_with(verb), "{typed}: {after:?}");
        }
        for wrong in [
            "ukai --output json",
            "ukai --ack-run-state",
            "ukai --ack-run-state j-1 j-2",
            "ukai --ack-run-state j-1 demo",
        ] {
            assert!(meant(wrong).is_err_and(|error| error.use_stderr()), "{wrong}");
        }
    }

    #[test]
    fn what_can_be_typed_holds_together() {
        Ukai::command().debug_assert();
    }
}
