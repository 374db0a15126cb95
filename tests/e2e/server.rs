//! One server for whoever comes: at the same time, in a crowd, from another environment.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Stdio;

use ukai_protocol::codec;
use ukai_protocol::control::{Filter, Request, Seen, Selection};
use ukai_protocol::frame::{PREAMBLE_BYTES, Role, preamble};
use ukai_tests::home::Home;
use ukai_tests::wait;

use crate::scripts;

const HANGS: &str = "[[rule]]\nfault.hang = \"before_headers\"\n";

fn submit(home: &Home) -> String {
    home.file("job.toml", "prompt = \"hang\"\n");
    let output = home.ukai(&["submit", "job.toml"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn runs_that_start_at_the_same_time_share_a_server() {
    let (home, _script) = Home::with_script(&scripts::slow_steps(2, "50ms"));
    home.file("notes.txt", &scripts::notes());
    let start = |_| home.command(&["run", "together"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let runs: Vec<_> = (0..4).map(start).map(|run| run.expect("it starts")).collect();
    for run in runs {
        let output = run.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(home.runs().len(), 4);
}

/// A client that listens to everything and reads nothing.
fn listen(socket: &PathBuf) -> UnixStream {
    let mut stream = UnixStream::connect(socket).expect("it listens");
    stream.write_all(&preamble(Role::Client)).expect("sent");
    stream.read_exact(&mut [0; PREAMBLE_BYTES]).expect("its preamble");
    let filter = Filter { jobs: Selection::All, deltas: true };
    let request = codec::encode(&Request::Subscribe { filter, seen: Seen::default() }).expect("encoded");
    stream.write_all(&u32::try_from(request.len()).expect("small").to_le_bytes()).expect("sent");
    stream.write_all(&request).expect("sent");
    stream
}

#[test]
fn a_crowd_of_listeners_does_not_keep_cancel_out() {
    let (home, script) = Home::with_script(HANGS);
    let _server = home.serve();
    let id = submit(&home);
    wait::until("the request", || (!script.arrivals().is_empty()).then_some(()));
    let mut sockets = std::fs::read_dir(home.path().join("run/ukai")).expect("the runtime directory");
    let socket = sockets.next().expect("a socket").expect("readable").path();
    let crowd: Vec<UnixStream> = (0..200).map(|_| listen(&socket)).collect();
    let output = home.ukai(&["cancel", "--all"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(home.count(&id, "Finished"), 1);
    drop(crowd);
}

#[test]
fn cancel_all_reaches_a_server_that_was_started_with_another_runtime_directory() {
    let (home, script) = Home::with_script(HANGS);
    let _server = home.serve();
    let id = submit(&home);
    wait::until("the request", || (!script.arrivals().is_empty()).then_some(()));
    let elsewhere = home.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("a folder");
    let output = home.command(&["cancel", "--all"]).env("XDG_RUNTIME_DIR", &elsewhere).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), id);
    assert_eq!(home.count(&id, "Finished"), 1);
}

#[test]
fn the_next_run_keeps_the_wait_that_a_provider_asked_the_last_one_for() {
    let (home, script) =
        Home::with_script("[[rule]]\n[rule.fault]\nstatus = 429\nheaders = { retry-after = \"3600\" }\n");
    let (code, result) = home.ukai_json(&["run", "first", "--output", "json"]);
    assert_eq!((code, script.arrivals().len()), (4, 1), "{result}");
    let output = home.ukai(&["run", "second"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(script.arrivals().len(), 1, "it was told to wait an hour: {stderr}");
    assert_eq!(output.status.code(), Some(4), "{stderr}");
    assert!(stderr.contains("stays queued (no provider may be asked"), "{stderr}");
}

#[test]
fn who_names_another_configuration_than_the_servers_is_told_whose_holds() {
    let (home, _script) = Home::with_script(&scripts::steps(1));
    let _server = home.serve();
    let other = home.path().join("other.toml");
    std::fs::write(&other, "max_workers = 2\n").expect("a configuration");
    let other = other.display().to_string();
    let told = |args: &[&str]| String::from_utf8_lossy(&home.ukai(args).stderr).into_owned();
    let own = home.path().join("config/ukai/ukai.toml").display().to_string();
    for args in [&["providers"][..], &["run", "look"]] {
        let stderr = told(&[args, &["--config", &other]].concat());
        assert!(stderr.contains(&own) && stderr.contains("a server runs already"), "{args:?}: {stderr}");
        let stderr = told(&[args, &["--config", &own]].concat());
        assert!(!stderr.contains("a server runs already"), "{args:?}: {stderr}");
    }
}
