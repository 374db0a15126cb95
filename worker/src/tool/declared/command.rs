//! A declared tool that is a program: arguments on stdin, result on stdout, what went wrong on stderr. It is started and ended
//! like a command line of Bash, by the same host and as confined.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};
use ukai_protocol::declared::Declared;
use ukai_protocol::json::Json;

use crate::host::words::Exit;
use crate::tool::bash::{lines, named, shown};
use crate::tool::hear::{Cut, Ears};
use crate::tool::said::Said;
use crate::tool::{Context, Stopped};

pub(super) fn run(tool: &Declared, command: &[String], input: &Json, context: &Context) -> Result<String, Stopped> {
    let name = &tool.name;
    let not_run = |why: &str| Stopped::Failed(format!("{name} was not run: {why}\n"));
    let arguments = file_of(input).map_err(|error| not_run(&format!("its arguments could not be put by: {error}")))?;
    let running = context.shells.start_program(command, arguments.as_fd()).map_err(|why| not_run(&why))?;
    let deadline = Instant::now() + Duration::from_millis(tool.timeout_ms);
    let mut ears = Ears::new(&running, context.sink(name));
    let ended = ears.hear_out(deadline, context);
    let complaint = ears.complaint();
    let said = ears.said;
    match ended {
        Ok(Exit::Code(0)) => Ok(shown(said)),
        Ok(Exit::Code(code)) => Err(Stopped::Failed(failed(said, &complaint, &format!("exit code {code}")))),
        Ok(Exit::Signal(signal)) => {
            Err(Stopped::Failed(failed(said, &complaint, &format!("ended by {}", named(signal)))))
        }
        Err(Cut::Cancelled) => Err(Stopped::Cancelled),
        Err(Cut::TimedOut) => {
            let ms = tool.timeout_ms;
            let what = format!("it was ended, with all that it had started, after {ms} ms: its time was over");
            Err(Stopped::Failed(failed(said, &complaint, &what)))
        }
        Err(Cut::Refused(why)) => Err(not_run(&why)),
        Err(Cut::Lost(why)) => Err(Stopped::Unknown(failed(said, &complaint, &format!("outcome unknown: {why}")))),
    }
}

/// What it said, what it complained of, and what became of it.
fn failed(said: Said<'_>, complaint: &str, what: &str) -> String {
    let complaint = match complaint.trim_end() {
        "" => String::new(),
        text => format!("[stderr]\n{text}\n"),
    };
    format!("{}{complaint}[{what}]\n", lines(said))
}

/// In memory, whole before the program looks: one that never reads holds nobody up.
fn file_of(input: &Json) -> io::Result<File> {
    let mut file = File::from(memfd_create("arguments", MemfdFlags::CLOEXEC)?);
    writeln!(file, "{}", input.to_text())?;
    file.rewind()?;
    Ok(file)
}
