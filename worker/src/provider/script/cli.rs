//! `ukai-worker script serve FILE …`: the arguments, the one line on stdout, and when to end.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use lexopt::{Arg, ValueExt};
use tokio::signal::unix::{SignalKind, signal};

use super::conversation::Wire;
use super::file::Script;
use super::server::{Server, bind};

const USAGE: &str = "\
Plays a script of model replies over HTTP on the loopback (the file is described in docs/script.md)

Usage: script serve FILE [--wire openai|anthropic|gemini] [--listen 127.0.0.1:0]
                         [--record ARRIVALS.jsonl] [--until-stdin-closes]

      --wire WIRE            serve this wire alone; without, the path of each request decides
      --listen ADDRESS       a loopback address; port 0 (the default) takes a free one
      --record FILE          append one line of JSON for each request
      --until-stdin-closes   end when standard input does, with whoever holds its other end
";

/// Usage and configuration errors, as everywhere in ukai.
const EXIT_USAGE: u8 = 2;

struct Options {
    file: PathBuf,
    wire: Option<Wire>,
    listen: SocketAddr,
    record: Option<PathBuf>,
    until_stdin_closes: bool,
}

enum Asked {
    Help,
    Serve(Options),
}

/// `args`: what follows the word `script`.
pub fn serve_main(args: Vec<OsString>) -> ExitCode {
    let options = match parse(args) {
        Ok(Asked::Serve(options)) => options,
        Ok(Asked::Help) => return say(USAGE).map_or_else(|why| failed(&why.to_string(), 1), |()| ExitCode::SUCCESS),
        Err(why) => return failed(&format!("script: {why}\n\n{USAGE}"), EXIT_USAGE),
    };
    let script = match Script::load(&options.file, options.wire) {
        Ok(script) => script,
        Err(why) => {
            return failed(
                &format!("{why}; correct the file, or name another (docs/script.md describes it)"),
                EXIT_USAGE,
            );
        }
    };
    let server = match Server::new(script, options.wire, options.record.as_deref()) {
        Ok(server) => Arc::new(server),
        Err(why) => return failed(&format!("{why}; name another file with --record"), EXIT_USAGE),
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(why) => return failed(&format!("cannot start the script server: {why}"), 1),
    };
    runtime.block_on(serve(server, &options))
}

async fn serve(server: Arc<Server>, options: &Options) -> ExitCode {
    // Before the line on stdout: whoever has read it may send a signal at once.
    let signals = signal(SignalKind::terminate()).and_then(|term| Ok((term, signal(SignalKind::interrupt())?)));
    let (mut term, mut interrupt) = match signals {
        Ok(signals) => signals,
        Err(why) => return failed(&format!("cannot wait for signals: {why}"), 1),
    };
    let listener = match bind(options.listen).await {
        Ok(listener) => listener,
        Err(why) => {
            let at = options.listen;
            let next = "stop what listens there, or name another port with --listen (0 takes a free one)";
            return failed(&format!("cannot listen on {at}: {why}; {next}"), EXIT_USAGE);
        }
    };
    let address = match listener.local_addr() {
        Ok(address) => address,
        Err(why) => return failed(&format!("cannot tell the address listened on: {why}"), 1),
    };
    let base = if options.wire == Some(Wire::Openai) { "/v1" } else { "" };
    if let Err(why) = say(&format!("listening on http://{address}{base}\n")) {
        return failed(&format!("cannot say on stdout where the script is served: {why}"), 1);
    }
    let stdin_closes = until_stdin_closes(options.until_stdin_closes);
    tokio::select! {
        () = server.serve(listener) => failed("the script server ended by itself", 1),
        _ = term.recv() => ExitCode::SUCCESS,
        _ = interrupt.recv() => ExitCode::SUCCESS,
        () = stdin_closes => ExitCode::SUCCESS,
    }
}

/// A thread of its own: reading standard input blocks, and no runtime could end while it does.
async fn until_stdin_closes(asked: bool) {
    if !asked {
        return std::future::pending().await;
    }
    let (closed, wait) = tokio::sync::oneshot::channel::<()>();
    std::thread::spawn(move || {
        let mut bin = [0; 256];
        // An error ends it as the end does: nobody can be at the other side.
        while matches!(std::io::stdin().read(&mut bin), Ok(1..)) {}
        drop(closed);
    });
    // It carries nothing: that its sender is gone is the message.
    let _gone = wait.await;
}

fn parse(args: Vec<OsString>) -> Result<Asked, lexopt::Error> {
    let mut parser = lexopt::Parser::from_args(args);
    let (mut serve, mut file, mut wire, mut record, mut until_stdin_closes) = (false, None, None, None, false);
    let mut listen = SocketAddr::from(([127, 0, 0, 1], 0));
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Short('h') | Arg::Long("help") => return Ok(Asked::Help),
            Arg::Long("wire") => {
                let word = parser.value()?.string()?;
                let named = Wire::ALL.into_iter().find(|wire| wire.name() == word);
                wire = Some(named.ok_or_else(|| format!("--wire is openai, anthropic or gemini, not '{word}'"))?);
            }
            Arg::Long("listen") => listen = parser.value()?.parse()?,
            Arg::Long("record") => record = Some(PathBuf::from(parser.value()?)),
            Arg::Long("until-stdin-closes") => until_stdin_closes = true,
            Arg::Value(word) if !serve && word == "serve" => serve = true,
            Arg::Value(path) if serve && file.is_none() => file = Some(PathBuf::from(path)),
            other => return Err(other.unexpected()),
        }
    }
    if !serve {
        return Err("what is to be done with the script? the verb is 'serve'".into());
    }
    let file = file.ok_or("no script FILE is given")?;
    Ok(Asked::Serve(Options { file, wire, listen, record, until_stdin_closes }))
}

fn say(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn failed(why: &str, code: u8) -> ExitCode {
    // With stderr gone, the exit code is what is left to say.
    drop(writeln!(std::io::stderr(), "ukai: {}", why.trim_end()));
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(args: &str, expected: Result<(), &str>) {
        let parsed = parse(args.split_whitespace().map(OsString::from).collect());
        match (parsed, expected) {
            (Ok(_), Ok(())) => {}
            (Err(why), Err(part)) => assert!(why.to_string().contains(part), "{args}: {why}"),
            (parsed, _) => panic!("{args}: parsed is {}", parsed.is_ok()),
        }
    }

    #[test]
    fn arguments_are_taken_as_the_usage_says() {
        for (args, expected) in [
            ("serve a.toml", Ok(())),
            ("serve a.toml --wire anthropic --listen 127.0.0.1:80 --record r.jsonl --until-stdin-closes", Ok(())),
            ("--help", Ok(())),
            ("", Err("the verb is 'serve'")),
            ("play a.toml", Err("play")),
            ("serve", Err("no script FILE")),
            ("serve a.toml b.toml", Err("b.toml")),
            ("serve a.toml --wire gemini", Ok(())),
            ("serve a.toml --wire vertex", Err("not 'vertex'")),
            ("serve a.toml --listen here", Err("here")),
            ("serve a.toml --port 80", Err("--port")),
        ] {
            check(args, expected);
        }
    }
}
