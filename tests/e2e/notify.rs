//! The owner is told in Discord: one message that matters, by Discord's rules, once, and with no secret in it (spec §12).

use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use ukai_tests::discord::{Fault, Receiver};
use ukai_tests::home::{Home, lab};
use ukai_tests::script::Script;
use ukai_tests::wait;

use crate::scripts;

const KEY: &str = "sk-test-0123456789abcdefghij";
const OTHER: &str = "hush-hush-9876543210";

fn told(home: &Home, receiver: &Receiver, args: &[&str]) -> Command {
    let mut command = home.command(args);
    command.env("UKAI_DISCORD_WEBHOOK", receiver.url()).env("LAB_KEY", KEY).env("OTHER_SECRET", OTHER);
    command
}

/// A server that tells, without the harness's own end: the tests end it themselves.
fn serve(home: &Home, receiver: &Receiver) -> Child {
    let log = std::fs::File::options().append(true).create(true).open(home.path().join("serve.log")).expect("a log");
    let child = told(home, receiver, &["serve"]).stdout(Stdio::null()).stderr(log).spawn().expect("ukai serves");
    wait::until("the server to listen", || {
        home.ukai(&["ls"]).status.success().then_some(())?;
        let mut sockets = std::fs::read_dir(home.path().join("run/ukai")).ok()?.flatten();
        sockets.any(|socket| std::os::unix::net::UnixStream::connect(socket.path()).is_ok()).then_some(())
    });
    child
}

fn text(message: &Value) -> String {
    format!("{} {}", message["content"], message["embeds"])
}

/// No file of the home holds what is secret.
fn check_no_secret(folder: &Path, secrets: &[&str]) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            check_no_secret(&path, secrets);
        } else if let Ok(bytes) = std::fs::read(&path) {
            for secret in secrets {
                let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
                assert!(!found, "{} holds {secret}", path.display());
            }
        }
    }
}

#[test]
fn the_storm_is_one_message_and_its_resumption_none() {
    let (home, receiver) = (Home::new(), Receiver::start());
    home.file("a.txt", "TODO error\nname\n");
    let place = home.path().join("storm").display().to_string();
    let played =
        told(&home, &receiver, &["demo", "--storm", "--resume", "--state-dir", &place]).output().expect("played");
    let stdout = String::from_utf8_lossy(&played.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&played.stderr).into_owned();
    assert_eq!(played.status.code(), Some(0), "{stdout}\n{stderr}");
    assert!(stdout.contains("20 of 20 completed") && stdout.contains("each of them once"), "{stdout}");
    assert!(stderr.lines().any(|line| line.starts_with("ukai: ") && line.contains("need attention")), "{stderr}");
    let delivered = receiver.delivered();
    assert_eq!(delivered.len(), 1, "{delivered:#?}");
    assert_eq!(receiver.violations(), Vec::<String>::new());
    let text = text(&delivered[0]);
    assert!(delivered[0]["embeds"][0]["title"].as_str().is_some_and(|title| title.starts_with("[demo] ")), "{text}");
    assert!(text.contains(&format!("--state-dir {place}`")), "what is to be typed can be typed: {text}");
    assert!(text.contains("first") && text.contains("second") && text.contains("aborted"), "{text}");
    check_no_secret(&home.path().join("storm"), &[receiver.token()]);
}

#[test]
fn a_storm_whose_message_does_not_arrive_says_so_and_goes_as_told_and_what_it_says_to_type_works() {
    let (home, receiver) = (Home::new(), Receiver::start());
    home.file("a.txt", "TODO error\nname\n");
    receiver.fault(Fault::Status(404));
    let place = home.path().join("storm").display().to_string();
    let played = told(&home, &receiver, &["demo", "--storm", "--state-dir", &place]).output().expect("played");
    let stdout = String::from_utf8_lossy(&played.stdout).into_owned();
    assert_eq!(played.status.code(), Some(0), "{played:?}");
    assert!(stdout.contains("its message did not arrive (discord): it is dead: HTTP 404"), "{stdout}");
    // Nothing of a demo is resumed: its providers have ended.
    let shown = stdout.lines().find_map(|line| line.trim().strip_prefix("ukai show ")).expect("a job");
    let job = shown.split(' ').next().expect("an id");
    let typed = home.ukai(&["show", job, "--state-dir", &place]);
    let said = String::from_utf8_lossy(&typed.stdout).into_owned();
    assert!(said.contains("`ukai demo --storm --resume` plays") && !said.contains("ukai resume"), "{said}");
    assert!(String::from_utf8_lossy(&typed.stderr).contains("this is a demo's"), "{typed:?}");
    let refused = home.ukai(&["resume", job, "--state-dir", &place]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && said.contains("nothing was resumed: this is a demo's"), "{said}");
}

#[test]
fn what_a_killed_server_had_not_told_is_told_once_after_the_next_start() {
    let receiver = Receiver::start();
    let (home, _script) = Home::with_script(&scripts::steps(4));
    home.file("notes.txt", &scripts::notes());
    home.file("look.toml", "name = \"look\"\nprompt = \"look\"\n[limits]\nsteps = 2\n");
    // It takes the message, and says nothing until the server is dead.
    receiver.fault(Fault::Hang);
    let mut server = serve(&home, &receiver);
    assert_eq!(home.ukai(&["run", "--file", "look.toml"]).status.code(), Some(4));
    wait::until("the message to be under way", || (receiver.requests() > 0).then_some(()));
    server.kill().expect("killed");
    server.wait().expect("gone");
    assert_eq!(receiver.delivered().len(), 0);

    let mut server = serve(&home, &receiver);
    wait::until("the alert", || (!receiver.delivered().is_empty()).then_some(()));
    let delivered = receiver.delivered();
    assert!(text(&delivered[0]).contains("late") && text(&delivered[0]).contains("limit"), "{delivered:#?}");
    server.kill().expect("killed");
    server.wait().expect("gone");
    // And once only, whatever starts after it.
    let again = told(&home, &receiver, &["notify", "test"]).output().expect("ukai runs");
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    let mentions = receiver.delivered().iter().filter(|message| text(message).contains("limit")).count();
    assert_eq!(mentions, 1, "{:#?}", receiver.delivered());
    assert_eq!(receiver.violations(), Vec::<String>::new());
}

#[test]
fn a_wait_is_obeyed_and_an_unknown_address_is_dead_also_after_a_restart() {
    let ((home, _script), receiver) = (Home::with_script(&scripts::steps(1)), Receiver::start());
    let test = |receiver: &Receiver| {
        let output = told(&home, receiver, &["notify", "test", "--output", "json"]).output().expect("ukai runs");
        let rows: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let row = rows.as_array().expect("rows").iter().find(|row| row["sink"] == "discord").cloned();
        (row.map(|row| row["ok"] == true), format!("{output:?}"))
    };
    receiver.fault(Fault::Limited(0.75));
    assert_eq!(test(&receiver).0, Some(true));
    let doctor = |receiver: &Receiver| {
        let said = told(&home, receiver, &["doctor"]).output().expect("ukai runs").stdout;
        let said = String::from_utf8_lossy(&said).into_owned();
        said.lines().find(|line| line.contains("discord")).expect("a line").to_owned()
    };
    assert!(doctor(&receiver).contains("yes"));
    receiver.fault(Fault::Status(404));
    let (row, said) = test(&receiver);
    assert_eq!(row, Some(false));
    assert!(said.contains("it is dead: HTTP 404") && !said.contains(receiver.token()), "{said}");
    assert!(said.contains("`ukai notify test` tries it again"), "{said}");
    let asked = receiver.requests();
    let line = doctor(&receiver);
    assert!(
        line.starts_with('!') && line.contains("it is dead: HTTP 404") && line.contains("tries it again"),
        "{line}"
    );
    // Nobody but a person asks it again.
    let mut server = serve(&home, &receiver);
    let line = doctor(&receiver);
    assert!(line.starts_with('!') && line.contains("it is dead: HTTP 404"), "{line}");
    assert_eq!(receiver.requests(), asked, "a dead address is not asked again");
    assert_eq!(test(&receiver).0, Some(true), "and who does revives it");
    assert!(!doctor(&receiver).contains("dead"));
    server.kill().expect("killed");
    server.wait().expect("gone");
    assert!(!doctor(&receiver).contains("dead"), "also for who starts next");
    let other = Receiver::start();
    assert_eq!(test(&other).0, Some(true), "another address is another sink");
    assert_eq!(receiver.violations(), Vec::<String>::new());
}

#[test]
fn a_test_says_of_each_webhook_what_is_wrong_with_it_and_fails() {
    let (home, receiver) = (Home::new(), Receiver::start());
    (0..20).for_each(|_| receiver.fault(Fault::Status(500)));
    // Nobody listens there.
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("bound").local_addr().expect("an address").port();
    for (url, why) in [
        ("http://discord.com/api/webhooks/1/hush-hush-token".to_owned(), "neither https nor http to this machine"),
        ("hush-hush-token".to_owned(), "no address of the form"),
        (receiver.url(), "HTTP 500"),
        (format!("http://127.0.0.1:{port}/api/webhooks/1/hush-hush-token"), "refused"),
    ] {
        let mut command = home.command(&["notify", "test", "--output", "json"]);
        let output = command.env("UKAI_DISCORD_WEBHOOK", &url).output().expect("ukai runs");
        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(1), "{url} {stdout} {stderr}");
        let rows: Value = serde_json::from_str(&stdout).expect("JSON");
        let row = rows.as_array().expect("rows").iter().find(|row| row["sink"] == "discord").expect("a row");
        assert!(row["ok"] == false && row["why"].as_str().is_some_and(|said| said.contains(why)), "{why}: {row}");
        assert!(!format!("{stdout}{stderr}").contains("hush-hush"), "{stdout} {stderr}");
    }
}

#[test]
fn a_sink_that_nobody_configured_is_a_row_and_no_failure_and_a_server_of_another_environment_is_named() {
    let ((home, _script), receiver) = (Home::with_script(&scripts::steps(1)), Receiver::start());
    let check = |webhook: bool, args: &[&str], parts: &[&str]| {
        let mut command = home.command(args);
        command.env_remove("DBUS_SESSION_BUS_ADDRESS").env_remove("UKAI_DISCORD_WEBHOOK");
        if webhook {
            command.env("UKAI_DISCORD_WEBHOOK", receiver.url());
        }
        let output = command.output().expect("ukai runs");
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        parts.iter().for_each(|part| assert!(stdout.contains(part), "{part} in {stdout}"));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let test = ["notify", "test"];
    let here = ["arrived: stderr of this terminal", "off: no session bus", "UKAI_DISCORD_WEBHOOK is unset here"];
    assert!(check(false, &test, &here).contains("test"), "it went where it says");
    let without = home.serve();
    let difference = "started without UKAI_DISCORD_WEBHOOK, which this terminal has; start it again with it";
    check(true, &["doctor"], &[difference]);
    check(true, &test, &["arrived: stderr of the server", difference]);
    check(false, &test, &["started without UKAI_DISCORD_WEBHOOK; start it again with it"]);
    drop(without);
    assert_eq!(receiver.requests(), 0);
    let mut with = serve(&home, &receiver);
    check(false, &["doctor"], &["the server has UKAI_DISCORD_WEBHOOK, this terminal has not"]);
    with.kill().expect("killed");
    with.wait().expect("gone");
}

#[test]
fn a_longer_wait_than_the_test_has_is_told_at_once() {
    let (home, receiver) = (Home::new(), Receiver::start());
    receiver.fault(Fault::Limited(600.0));
    let begun = std::time::Instant::now();
    let output = told(&home, &receiver, &["notify", "test"]).output().expect("ukai runs");
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.code() == Some(1) && stdout.contains("it asks to wait for 600"), "{output:?}");
    assert!(stdout.contains("`ukai notify test` tries again"), "{stdout}");
    assert!(begun.elapsed().as_secs() < 8, "{:?}", begun.elapsed());
}

#[test]
fn what_a_dead_webhook_misses_wants_to_be_seen_again_after_each_ack() {
    let receiver = Receiver::start();
    let (home, _script) = Home::with_script(&scripts::steps(4));
    home.file("notes.txt", &scripts::notes());
    home.file("look.toml", "name = \"look\"\nprompt = \"look\"\n[limits]\nsteps = 2\n");
    receiver.fault(Fault::Status(404));
    let mut server = serve(&home, &receiver);
    let lost = |home: &Home| {
        let seen = home.ukai(&["ack", "alerts"]);
        let seen = String::from_utf8_lossy(&seen.stdout).into_owned();
        assert!(!seen.contains("could not be") || seen.contains("discord: it is dead: HTTP 404"), "{seen}");
        seen.contains("could not be delivered").then_some(())
    };
    for _ in 0..2 {
        assert_eq!(home.ukai(&["run", "--file", "look.toml"]).status.code(), Some(4));
        wait::until("the loss to be news", || lost(&home));
        assert_eq!(lost(&home), None, "it is acked");
    }
    server.kill().expect("killed");
    server.wait().expect("gone");
    assert_eq!(receiver.delivered().len(), 0);
    // What was acked is not told by the next process either: the aborts are, which nobody has acked.
    let other = Receiver::start();
    let again = told(&home, &other, &["run", "--file", "look.toml"]).output().expect("ukai runs");
    assert_eq!(again.status.code(), Some(4), "{again:?}");
    let told: Vec<_> = other.delivered().iter().map(text).collect();
    assert!(!told.is_empty() && told.iter().all(|text| !text.contains("could not be delivered")), "{told:#?}");
}

#[test]
fn no_secret_stands_in_any_alert_log_or_event() {
    let receiver = Receiver::start();
    let home = Home::new();
    let echo = format!(
        "[[rule]]\nfault = {{ status = 401, message = \"key {KEY} and {OTHER} @everyone {} are wrong\" }}\n",
        "🐦".repeat(2_500)
    );
    let script = Script::serve(home.path(), &echo);
    home.configure(&format!("{}api_key_env = \"LAB_KEY\"\n", lab(&script, "openai")));
    let output = told(&home, &receiver, &["run", "look", "--output", "stream-json"]).env("UKAI_LOG", "trace").output();
    let output = output.expect("ukai runs");
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let delivered = receiver.delivered();
    assert_eq!((delivered.len(), receiver.violations()), (1, Vec::new()), "{delivered:#?}");
    let secrets = [KEY, OTHER, receiver.token()];
    for said in [&output.stdout, &output.stderr] {
        let said = String::from_utf8_lossy(said);
        secrets.iter().for_each(|secret| assert!(!said.contains(secret), "{secret} in {said}"));
    }
    let told = text(&delivered[0]);
    assert!(!told.contains("hush-hush") && !told.contains("@everyone"), "{told}");
    secrets.iter().for_each(|secret| assert!(!told.contains(secret), "{told}"));
    check_no_secret(&home.state_dir(), &secrets);
}

#[test]
fn a_model_or_a_file_that_knows_a_secret_puts_it_into_no_record() {
    let receiver = Receiver::start();
    let home = Home::new();
    let in_base64 = "c2stdGVzdC0wMTIzNDU2Nzg5YWJjZGVmZ2hpag==";
    home.file("notes.txt", &format!("{OTHER}\nAuthorization: Basic {in_base64}\nthe end {KEY}\n"));
    let many = format!("{KEY} and more\n").repeat(3_000);
    home.file("many.txt", &many);
    home.file("AGENTS.md", &format!("Use {OTHER}.\n"));
    let script = Script::serve(
        home.path(),
        &format!(
            "[[rule]]\nwhen.step = {{ at_most = 1 }}\n[rule.reply]\ntext = \"I know {KEY} and {webhook}\"\ncalls = [\n\
             {{ tool = \"Read\", args = {{ file_path = \"notes.txt\" }} }},\n\
             {{ tool = \"Grep\", args = {{ pattern = \"more\", path = \"many.txt\", output_mode = \"content\" }} }},\n\
             {{ tool = \"Read\", args = {{ file_path = \"{KEY}\" }} }} ]\n\
             [[rule]]\n[rule.reply]\ntext = \"It was {OTHER}.\"\n",
            webhook = receiver.url(),
        ),
    );
    home.configure(&format!("{}api_key_env = \"LAB_KEY\"\n", lab(&script, "openai")));
    let output = told(&home, &receiver, &["run", "look", "--output", "stream-json"]).env("UKAI_LOG", "trace").output();
    let output = output.expect("ukai runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let secrets = [KEY, OTHER, in_base64.trim_end_matches('='), receiver.token()];
    for said in [&output.stdout, &output.stderr] {
        let said = String::from_utf8_lossy(said);
        secrets.iter().for_each(|secret| assert!(!said.contains(secret), "{secret} in {said}"));
    }
    check_no_secret(&home.state_dir(), &secrets);
    // And the file of the long output is there, so that the search above was one.
    let [id] = &home.runs()[..] else { panic!("one run") };
    let outputs = std::fs::read_dir(home.state_dir().join("runs").join(id).join("outputs")).expect("outputs");
    let kept = std::fs::read_to_string(outputs.flatten().next().expect("a file").path()).expect("text");
    assert!(kept.contains("[secret] and more"), "{kept}");
    // A line that is cut gives no beginning of one away, nor does a stream of one word.
    let home = Home::new();
    home.file("cut.txt", &format!("{}{KEY}tail\n", "z".repeat(1_980)));
    let word = format!("{}{KEY}", "w".repeat(401)).repeat(60);
    let look = "[[rule]]\nwhen.step = 1\nreply.calls = [{ tool = \"Read\", args = { file_path = \"cut.txt\" } }]\n";
    let script_of_words = Script::serve(home.path(), &format!("{look}[[rule]]\nreply.text = \"{word}\"\n"));
    home.configure(&format!("{}api_key_env = \"LAB_KEY\"\n", lab(&script_of_words, "openai")));
    let output = told(&home, &receiver, &["run", "look", "--output", "stream-json"]).output().expect("ukai runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let beginning = &KEY[..12];
    assert!(!String::from_utf8_lossy(&output.stdout).contains(beginning), "{output:?}");
    check_no_secret(&home.state_dir(), &[beginning]);
    // What the model was sent is what stands in the log.
    let last = script.arrivals().pop().expect("a request").to_string();
    secrets.iter().for_each(|secret| assert!(!last.contains(secret), "{secret} in {last}"));
}
