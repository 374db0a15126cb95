//! Commands run as they would anywhere, end when they should, and reach nothing that is not the job's (spec §7, §8).

use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use ukai_protocol::process;
use ukai_tests::home::{Home, lab};
use ukai_tests::script::Script;
use ukai_tests::wait;

const KEY: &str = "sk-hands-0123456789abcdef";

/// On whose behalf, and what the kernel grants.
#[derive(Clone, Copy, Debug, PartialEq)]
enum As {
    WhoeverTests,
    OrdinaryUser,
    /// Landlock and seccomp alone.
    WithoutNamespaces,
}

const ALL: [As; 3] = [As::WhoeverTests, As::OrdinaryUser, As::WithoutNamespaces];

/// A script that asks for these commands, one a step.
fn script(commands: &[&str], timeout_ms: u32) -> String {
    let rule = |(at, command): (usize, &&str)| {
        let (step, command) = (at + 1, json!(command));
        format!(
            "[[rule]]\nwhen.step = {step}\nreply.calls = [{{ tool = \"Bash\", args = {{ command = {command}, timeout = {timeout_ms} }} }}]\n"
        )
    };
    let rules: String = commands.iter().enumerate().map(rule).collect();
    format!("{rules}[[rule]]\nreply.text = \"done\"\n")
}

fn home(who: As, toml: &str) -> (Home, Script) {
    let mut home = Home::new();
    let script = Script::serve(home.path(), toml);
    home.configure(&format!("{}api_key_env = \"LAB_KEY\"\n", lab(&script, "openai")));
    match who {
        As::WhoeverTests => {}
        As::OrdinaryUser => home.as_ordinary_user(),
        As::WithoutNamespaces => home.without_namespaces(),
    }
    (home, script)
}

const RUN: [&str; 10] =
    ["run", "go", "--allow", "Bash", "--limit", "steps=60", "--limit", "tool_calls=60", "--output", "json"];

fn finished(home: &Home) -> Vec<Value> {
    let [id] = &home.runs()[..] else { panic!("one run: {:?}", home.runs()) };
    let records = home.events(id);
    records
        .into_iter()
        .filter(|record| record["event"] == "ToolFinished")
        .map(|record| record["data"].clone())
        .collect()
}

/// Runs each; returns status and output.
fn outcomes(who: As, home: &Home) -> Vec<(String, String)> {
    let output = home.command(&RUN).env("LAB_KEY", KEY).output().expect("ukai runs");
    assert_eq!(output.status.code(), Some(0), "{who:?}: {output:?}");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    finished(home).iter().map(|data| (text(&data["status"]), text(&data["output"]))).collect()
}

fn lives(name: &str) -> bool {
    process::all().iter().filter(|seen| !seen.is_dead).any(|seen| {
        std::fs::read(format!("/proc/{}/cmdline", seen.pid))
            .is_ok_and(|line| line.windows(name.len()).any(|window| window == name.as_bytes()))
    })
}

#[test]
fn every_command_returns_with_the_status_that_it_has() {
    let cases: [(&str, &str, &str); 15] = [
        ("echo out; echo err >&2", "ok", "out\nerr\n"),
        ("exit 3", "failed", "[exit code 3]"),
        ("true", "ok", "(no output)"),
        ("sleep 300 & echo ok", "ok", "ok\n"),
        ("cat; echo after", "ok", "after\n"),
        ("read x; echo got:$x:$?", "ok", "got::1"),
        ("kill -9 $$", "failed", "[ended by signal 9, SIGKILL]"),
        ("kill -TERM $$", "failed", "[ended by signal 15, SIGTERM]"),
        ("mkfifo f; cat f", "failed", "its time was over"),
        ("yes", "failed", "its time was over"),
        ("trap '' TERM; sleep 300", "failed", "its time was over"),
        ("printf '\\033[31mred\\000'", "ok", "␛[31mred␀"),
        ("tty; [ -t 0 ] || echo none", "ok", "not a tty\nnone"),
        ("mkdir -p sub; cd sub; pwd", "ok", "/work/sub\n"),
        ("nosuchcommand", "failed", "[exit code 127]"),
    ];
    for who in ALL {
        let commands = cases.map(|(command, _, _)| command);
        let (home, _script) = home(who, &script(&commands, 1_000));
        let outcomes = outcomes(who, &home);
        assert_eq!(outcomes.len(), cases.len(), "{outcomes:?}");
        for ((command, status, part), (found, output)) in cases.iter().zip(&outcomes) {
            assert_eq!(found, status, "{who:?}: {command}: {output:.300}");
            assert!(output.contains(part), "{who:?}: {command}: {output:.300}");
            assert!(output.chars().count() <= 31_000, "{who:?}: {command}: {}", output.len());
        }
    }
}

#[test]
fn a_gigabyte_is_shown_by_its_ends_and_costs_no_memory() {
    let (home, _script) =
        home(As::WhoeverTests, &script(&["echo begin; head -c 1000000000 /dev/zero; echo end"], 600_000));
    let mut run = home.command(&RUN).env("LAB_KEY", KEY).spawn().expect("ukai runs");
    let mut most = 0;
    // A debug build on a busy machine needs more than the patience of other tests.
    let deadline = Instant::now() + Duration::from_secs(240);
    let ended = loop {
        for worker in home.workers() {
            let status = std::fs::read_to_string(format!("/proc/{worker}/status")).unwrap_or_default();
            let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
            let kb = resident.and_then(|text| text.trim().trim_end_matches(" kB").parse::<u64>().ok());
            most = most.max(kb.unwrap_or(0));
        }
        if let Some(ended) = run.try_wait().expect("a child") {
            break ended;
        }
        assert!(Instant::now() < deadline, "the job does not end");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(ended.code(), Some(0));
    let [data] = &finished(&home)[..] else { panic!("one call") };
    let output = data["output"].as_str().expect("text");
    assert_eq!(data["status"], "ok");
    assert!(output.starts_with("begin\n") && output.ends_with("end\n"), "{output:.100}");
    assert!(most > 0 && most < 64 * 1024, "{most} kB");
}

#[test]
fn nothing_that_a_command_started_outlives_its_job() {
    for (who, seconds) in ALL.into_iter().zip([39_411, 39_412, 39_413]) {
        let sleep = format!("sleep\0{seconds}");
        let detach = [
            format!("sleep {seconds} &"),
            format!("(setsid sh -c 'trap \"\" TERM; sleep {seconds} & wait' >/dev/null 2>&1 &)"),
            format!("env -i setsid sleep {seconds} >/dev/null 2>&1 & disown"),
            "sleep 0.3".to_owned(),
        ];
        let commands: Vec<&str> = detach.iter().map(String::as_str).collect();
        let (home, _script) = home(who, &script(&commands, 5_000));
        let outcomes = outcomes(who, &home);
        assert!(outcomes.iter().all(|(status, _)| status == "ok"), "{who:?}: {outcomes:?}");
        // The end of the job is told after the end of all of them.
        assert!(!lives(&sleep), "{who:?}");
        assert_eq!(home.processes(), [0_u32; 0], "{who:?}");
    }
}

#[test]
fn nothing_that_a_command_started_outlives_its_worker() {
    for (who, seconds) in ALL.into_iter().zip([39_421, 39_422, 39_423]) {
        let sleep = format!("sleep\0{seconds}");
        let command = format!("(setsid sleep {seconds} &) >/dev/null 2>&1; env -i sleep {seconds}");
        let (home, _script) = home(who, &script(&[&command], 60_000));
        let mut run = home.command(&RUN).env("LAB_KEY", KEY).spawn().expect("ukai runs");
        wait::until("the command to run", || lives(&sleep).then_some(()));
        let [worker] = home.workers()[..] else { panic!("one worker: {:?}", home.workers()) };
        let killed =
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(worker.cast_signed()), nix::sys::signal::SIGKILL);
        killed.expect("killed");
        let killed_at = Instant::now();
        wait::until("its commands to be gone", || (!lives(&sleep)).then_some(()));
        assert!(killed_at.elapsed() < Duration::from_secs(2), "{who:?}: {:?}", killed_at.elapsed());
        assert_eq!(run.wait().expect("ukai ends").code(), Some(0), "{who:?}");
        let [data] = &finished(&home)[..] else { panic!("one call: {:?}", finished(&home)) };
        assert!(
            data["output"].as_str().is_some_and(|text| text.contains("unknown")),
            "never run again unasked: {data}"
        );
    }
}

#[test]
fn a_command_reaches_nothing_that_is_not_the_jobs() {
    for who in ALL {
        let (tcp, udp) =
            (TcpListener::bind("127.0.0.1:0").expect("bound"), UdpSocket::bind("127.0.0.1:0").expect("bound"));
        let (tcp_port, udp_port) =
            (tcp.local_addr().expect("an address").port(), udp.local_addr().expect("an address").port());
        tcp.set_nonblocking(true).expect("set");
        udp.set_nonblocking(true).expect("set");
        let unix_of = |home: &Home| home.work().join("service.sock");
        let connect = "perl -MSocket -e 'socket(S,AF_UNIX,SOCK_STREAM,0) && connect(S,sockaddr_un(\"service.sock\")) && print \"connected\" or exit 1'";
        let commands = [
            "echo x > ../outside".to_owned(),
            "ln -s ../victim way_out; echo x > way_out".to_owned(),
            "cat ~/.ssh/id_rsa ../victim".to_owned(),
            format!("exec 3<>/dev/tcp/127.0.0.1/{tcp_port}; echo connected >&3"),
            format!("echo x > /dev/udp/127.0.0.1/{udp_port}"),
            connect.to_owned(),
            "for p in /proc/[0-9]*; do tr '\\0' '\\n' < $p/environ; cat $p/cmdline; done 2>/dev/null; env".to_owned(),
            "for p in /proc/[0-9]*; do cat $p/maps > /dev/null && head -c 99 $p/mem; done 2>/dev/null | grep -c hands"
                .to_owned(),
            "kill -9 -1; sleep 0.1".to_owned(),
            "echo x > .git/hooks/pre-commit; mv .git moved".to_owned(),
            "cat .env; echo x > .env; rm -f .env".to_owned(),
            "cat /etc/shadow /etc/gshadow; ls /root; mount -t tmpfs none /mnt; unshare -U true".to_owned(),
            "cat {state}/supervisor/* {state}/runs/*/*.json* | head -c 300; echo x > {state}/x".to_owned(),
            "chmod 4777 ../victim; touch -t 200001010000 ../victim; chmod 700 $(dirname $TMPDIR)".to_owned(),
            "prlimit --pid 1 --nofile=3:3; mkdir -p a/.git; echo x > a/.git/config; cat a/.git/config".to_owned(),
            "ulimit -c; echo still here".to_owned(),
        ];
        let mut home = Home::new();
        let state = home.state_dir().display().to_string();
        let commands = commands.map(|command| command.replace("{state}", &state));
        // What a script does no rule sees: only the kernel is left.
        let names: Vec<String> = (0..commands.len()).map(|at| format!("bash case{at}.sh")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        commands.iter().enumerate().for_each(|(at, command)| home.file(&format!("case{at}.sh"), command));
        let script = Script::serve(home.path(), &self::script(&names, 5_000));
        home.configure(&format!("{}api_key_env = \"LAB_KEY\"\n", lab(&script, "openai")));
        std::fs::create_dir_all(home.path().join(".ssh")).expect("a folder");
        std::fs::write(home.path().join(".ssh/id_rsa"), "PRIVATE-7788").expect("a file");
        std::fs::write(home.path().join("victim"), "VICTIM-7788").expect("a file");
        home.file(".git/hooks/keep", "");
        home.file(".env", "DOTENV-7788");
        let _unix = UnixListener::bind(unix_of(&home)).expect("bound");
        match who {
            As::WhoeverTests => {}
            As::OrdinaryUser => home.as_ordinary_user(),
            As::WithoutNamespaces => home.without_namespaces(),
        }
        let outcomes = outcomes(who, &home);
        assert_eq!(outcomes.len(), commands.len(), "{who:?}: {outcomes:?}");
        let all = format!("{outcomes:?}");
        for secret in ["PRIVATE-7788", "VICTIM-7788", KEY, "LAB_KEY", "connected", "root:"] {
            assert!(!all.contains(secret), "{who:?}: {secret} in {all}");
        }
        let (last, before) = outcomes.split_last().expect("outcomes");
        assert_eq!(last.1, "0\nstill here\n", "{who:?}");
        assert!(before[..6].iter().all(|(status, _)| status == "failed"), "{who:?}: {before:?}");
        let read = |path: &str| std::fs::read_to_string(home.path().join(path)).unwrap_or_default();
        assert_eq!(read("victim"), "VICTIM-7788", "{who:?}");
        for path in ["outside", "state/ukai/x"] {
            assert!(!home.path().join(path).exists(), "{who:?}: {path}");
        }
        assert!(tcp.accept().is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "{who:?}");
        assert!(udp.recv(&mut [0; 9]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "{who:?}");
        // What lies inside of the workdir is closed by mounts, where there are namespaces.
        if who != As::WithoutNamespaces {
            let found = std::fs::metadata(home.path().join("victim")).expect("it is there");
            assert_eq!(std::os::unix::fs::PermissionsExt::mode(&found.permissions()) & 0o7000, 0, "{who:?}");
            assert!(found.modified().expect("a time").elapsed().expect("past") < Duration::from_secs(3_600), "{who:?}");
            assert!(!all.contains("DOTENV-7788") && read("work/.env") == "DOTENV-7788", "{who:?}: {all}");
            assert!(
                !home.work().join(".git/hooks/pre-commit").exists() && home.work().join(".git/hooks/keep").exists()
            );
        }
        check_no_key(&home.state_dir());
    }
}

#[test]
fn what_a_rule_denies_is_not_even_started() {
    let cases = [
        ("rm -rf ~", "Bash(rm -rf:*)"),
        ("echo; sudo ls", "Bash(sudo:*)"),
        ("ls && timeout 5 bash -c 'rm --force -r .'", "Bash(rm -rf:*)"),
        ("git -C . push --force", "Bash(git push --force:*)"),
        ("cat ~/.ssh/id_rsa", "Read(~/.ssh/**)"),
        ("head .env", "Read(.env*)"),
        ("cp .env out", "Edit(.env*)"),
        ("echo x > .git/hooks/pre-commit", "Edit(.git/**)"),
        ("echo x > way_out", "default"),
        ("echo x > ../outside", "default"),
    ];
    for (command, expected) in cases {
        let (home, _script) = home(As::WhoeverTests, &script(&[command], 5_000));
        home.file(".env", "x");
        home.file(".git/hooks/keep", "");
        std::os::unix::fs::symlink("../victim", home.work().join("way_out")).expect("a link");
        let output = home.command(&RUN).env("LAB_KEY", KEY).output().expect("ukai runs");
        assert_eq!(output.status.code(), Some(7), "{command}: {output:?}");
        let [id] = &home.runs()[..] else { panic!("one run") };
        let events = home.events(id);
        let of = |event: &str| events.iter().filter(|record| record["event"] == event).collect::<Vec<_>>();
        let judgement = &of("Judged")[0]["data"]["judgement"];
        let rule = judgement["source"]["rule"]["rule"].as_str().unwrap_or("default");
        assert_eq!((&judgement["verdict"], rule), (&json!("deny"), expected), "{command}: {judgement}");
        assert!(of("ToolStarted").is_empty(), "{command}");
        assert!(!home.path().join("victim").exists() && !home.path().join("outside").exists(), "{command}");
    }
}

#[test]
fn a_kernel_that_can_confine_nothing_starts_no_job_unless_that_is_said() {
    for (policy, tools, starts) in
        [("", "", false), ("sandbox: off\n", "", true), ("", "[tools]\ndisable = [\"Bash\"]\n", true)]
    {
        let mut home = Home::new();
        let script = Script::serve(home.path(), &script(&["echo ran"], 5_000));
        home.configure(&format!("{tools}{}", lab(&script, "openai")));
        let file = home.path().join("policy.yaml");
        std::fs::write(&file, format!("version: 1\n{policy}rules:\n  allow: [Read, Bash]\n")).expect("a policy");
        home.on_an_old_kernel(false);
        let (code, result) =
            home.ukai_json(&["run", "go", "--policy", file.to_str().expect("text"), "--output", "json"]);
        // Whoever asks for a tool that is switched off completes, with something to look at.
        let expected = if !starts {
            1
        } else if tools.is_empty() {
            0
        } else {
            7
        };
        assert_eq!(code, expected, "{policy}{tools}: {result}");
        if !starts {
            let cause = &result["cause"];
            assert_eq!(cause["kind"], "policy_error", "{result}");
            let detail = cause["detail"].as_str().unwrap_or_default();
            assert!(detail.contains("Landlock ABI 0") && detail.contains("`sandbox: off`"), "{detail}");
            assert_eq!(script.requests(), 0, "nothing was asked");
        }
    }
}

#[test]
fn what_all_left_behind_when_they_died_together_is_ended_by_the_next_start() {
    let sleep = "sleep\x0039431";
    let (mut home, _script) =
        home(As::WithoutNamespaces, &script(&["(setsid sleep 39431 &) >/dev/null 2>&1; sleep 39431"], 60_000));
    let mut run = home.command(&RUN).env("LAB_KEY", KEY).spawn().expect("ukai runs");
    wait::until("the command to run", || lives(sleep).then_some(()));
    // Stopped first, so that none sees the other die.
    let all: Vec<u32> = home.processes().into_iter().chain([run.id()]).collect();
    for signal in [nix::sys::signal::SIGSTOP, nix::sys::signal::SIGKILL] {
        for pid in &all {
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid.cast_signed()), signal).expect("signalled");
        }
    }
    run.wait().expect("gone");
    assert!(lives(sleep), "they go on with nobody above them");
    let started = Instant::now();
    home.as_whoever_tests();
    let _server = home.serve();
    wait::until("the commands to be gone", || (!lives(sleep)).then_some(()));
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
}

fn check_no_key(folder: &Path) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            check_no_key(&path);
        } else if let Ok(bytes) = std::fs::read(&path) {
            assert!(!bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes()), "{}", path.display());
        }
    }
}

/// What who watches was told, besides the usual.
fn notes(home: &Home) -> Vec<String> {
    let [id] = &home.runs()[..] else { panic!("one run: {:?}", home.runs()) };
    let events = home.events(id).into_iter();
    let notices = events.filter(|record| {
        record["event"] == "Injected" && ["notice", "alarm"].iter().any(|why| record["data"]["why"] == *why)
    });
    notices.map(|record| record["data"]["text"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn what_a_script_makes_where_a_rule_denies_it_is_told_and_left_to_a_person() {
    const MAKES: [&str; 6] = [
        ".claude/settings.json",
        "tool_policy.yaml",
        ".ukai/tools/x.toml",
        "deep/er/.env.local",
        "secrets/key",
        "a/.git/config",
    ];
    for who in ALL {
        let late = r#"[[rule]]
when.step = 3
reply.calls = [{ tool = "Bash", args = { command = "bash late.sh", run_in_background = true } }]
[[rule]]
when.step = 4
reply.calls = [{ tool = "Bash", args = { command = "until [ -e started ]; do sleep 0.05; done" } }]
[[rule]]
reply.text = "done"
"#;
        let rules =
            script(&["bash make.sh", "cat made; ls -A"], 5_000).replace("[[rule]]\nreply.text = \"done\"\n", late);
        let (home, _script) = home(who, &rules);
        let make = |path: &str| format!("mkdir -p $(dirname {path}); echo planted > {path}\n");
        home.file("make.sh", &format!("{}echo kept > made", MAKES.map(make).concat()));
        // After the last look at it, and before its end.
        home.file("late.sh", "touch started; trap 'echo late > .env.late; exit' TERM; sleep 300 & wait");
        let run: Vec<&str> = RUN.into_iter().chain(["--deny", "Edit(secrets/**)"]).collect();
        let output = home.command(&run).env("LAB_KEY", KEY).output().expect("ukai runs");
        assert_eq!(output.status.code(), Some(0), "{who:?}: {output:?}");
        let all = finished(&home);
        // What it did otherwise is not made worse by it.
        assert_eq!((&all[0]["status"], &all[1]["status"]), (&json!("ok"), &json!("ok")), "{who:?}: {all:?}");
        let told = all[0]["output"].as_str().expect("text");
        assert!(told.contains("[where a rule denies it") && told.contains(".claude"), "{who:?}: {told}");
        assert!(!all[1]["output"].to_string().contains("denies"), "{who:?}: {all:?}");
        for path in MAKES {
            assert_eq!(std::fs::read_to_string(home.work().join(path)).expect("it is there"), "planted\n", "{who:?}");
        }
        let notes = notes(&home);
        let notes: Vec<&String> = notes.iter().filter(|note| note.contains("where a rule denies it")).collect();
        let [first, second] = notes[..] else { panic!("{who:?}: {notes:?}") };
        assert!(first.contains(".claude, .ukai") && second.contains(".env.late"), "{who:?}: {notes:?}");
        let [id] = &home.runs()[..] else { panic!("one run") };
        let alarms = home.events(id).into_iter().filter(|record| record["data"]["why"] == "alarm").count();
        assert_eq!(alarms, 2, "{who:?}");
        // Who looks later is told, too, until a person has seen it.
        for verb in ["show", "logs"] {
            let shown = String::from_utf8_lossy(&home.ukai(&[verb, id]).stdout).into_owned();
            assert!(
                shown.contains("where a rule denies it") && shown.contains("attention"),
                "{who:?}: {verb}: {shown}"
            );
        }
        assert!(home.ukai(&["ack", id]).status.success());
        assert!(!String::from_utf8_lossy(&home.ukai(&["show", id]).stdout).contains("attention"), "{who:?}");
    }
}

#[test]
fn a_job_in_its_owners_home_reaches_no_configuration_and_no_key_of_ukai() {
    for who in [As::WhoeverTests, As::OrdinaryUser] {
        let commands = [
            "for f in config/ukai/ukai.toml labkey work/../labkey; do rev $f; done; ls -A config/ukai; find . -name '*.toml'",
            "mv config old || mv config/ukai old",
            "echo 'allow: [Bash]' > config/ukai/tool_policy.yaml",
            "mkdir -p config/ukai/tools",
            "echo x > labkey; rm -f labkey",
            // What else lies there is the job's.
            "echo mine > config/other && cat config/other",
        ];
        let names: Vec<String> = (0..commands.len()).map(|at| format!("bash work/{at}.sh")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let read = r#"[[rule]]
when.step = 7
reply.calls = [{ tool = "Read", args = { file_path = "config/ukai/ukai.toml" } }, { tool = "Read", args = { file_path = "labkey" } }, { tool = "Bash", args = { command = "cat labkey" } }, { tool = "Bash", args = { command = "rm -rf config" } }]
[[rule]]
reply.text = "done"
"#;
        let mut home = Home::new();
        let script =
            Script::serve(home.path(), &self::script(&names, 5_000).replace("[[rule]]\nreply.text = \"done\"\n", read));
        home.configure(&format!("{}api_key_file = \"~/labkey\"\n# CONFIGURED-7788\n", lab(&script, "openai")));
        let key = home.path().join("labkey");
        std::fs::write(&key, KEY).expect("a file");
        std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("its mode");
        commands.iter().enumerate().for_each(|(at, command)| home.file(&format!("{at}.sh"), command));
        if who == As::OrdinaryUser {
            home.as_ordinary_user();
        }
        let top = home.path().display().to_string();
        let run: Vec<&str> = RUN.into_iter().chain(["--workdir", &top]).collect();
        let output = home.command(&run).output().expect("ukai runs");
        assert_eq!(output.status.code(), Some(0), "{who:?}: {output:?}");
        let all = finished(&home);
        let backwards = |text: &str| text.chars().rev().collect::<String>();
        for secret in [KEY, "CONFIGURED-7788"].map(|text| [text.to_owned(), backwards(text)]).concat() {
            assert!(!format!("{all:?}").contains(&secret), "{who:?}: {secret} in {all:?}");
        }
        for at in [1, 2, 3, 4] {
            assert_eq!(all[at]["status"], "failed", "{who:?}: {}: {all:?}", commands[at]);
        }
        assert_eq!((&all[5]["status"], &all[5]["output"]), (&json!("ok"), &json!("mine\n")), "{who:?}");
        let [id] = &home.runs()[..] else { panic!("one run") };
        assert!(home.events(id).iter().filter(|e| e["event"] == "Judged").count() >= 10, "{who:?}");
        assert!(all[6..].iter().all(|call| call["status"] == "denied"), "{who:?}: {all:?}");
        assert_eq!(std::fs::read_to_string(&key).expect("the key"), KEY, "{who:?}");
        assert!(!home.path().join("config/ukai/tool_policy.yaml").exists(), "{who:?}");
        // Moved is at most what a command sees of it: an empty folder, copied.
        let moved = std::fs::read_to_string(home.path().join("old/ukai.toml")).unwrap_or_default();
        let kept = std::fs::read_to_string(home.path().join("config/ukai/ukai.toml")).expect("it is where it was");
        assert!(moved.is_empty() && kept.contains("CONFIGURED-7788"), "{who:?}: {moved}");
        assert!(notes(&home).is_empty(), "{who:?}: {:?}", notes(&home));
    }
}

#[test]
fn no_command_leaves_a_file_with_which_another_becomes_its_owner() {
    let commands = [
        "cp /bin/true a; chmod u+s a",
        "cp /bin/true b; chmod 2755 b",
        "perl -e 'use Fcntl; sysopen(F, \"c\", O_CREAT|O_WRONLY, 04755) or exit 1'",
        "perl -e 'open(F, \">d\"); chmod(04755, *F) or exit 1'",
        "install -m 6755 /bin/true e",
        "mknod f c 1 3",
        // openat2 (437), whose mode no filter sees.
        "perl -e 'my $h = pack(\"QQQ\", 0101, 04755, 0); my $p = \"g\\0\"; syscall(437, -100, $p, $h, 24) >= 0 or exit 1'",
        "touch h; chmod 755 h; mkdir -m 1777 i; mkfifo j; install -m 644 /bin/true k; chmod g-s,u-s h && echo fine",
    ];
    let names: Vec<String> = (0..commands.len()).map(|at| format!("bash {at}.sh")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for who in ALL {
        let (home, _script) = home(who, &script(&names, 5_000));
        commands.iter().enumerate().for_each(|(at, command)| home.file(&format!("{at}.sh"), command));
        let outcomes = outcomes(who, &home);
        let (fine, refused) = outcomes.split_last().expect("outcomes");
        assert_eq!(fine.1, "fine\n", "{who:?}: {outcomes:?}");
        assert!(refused.iter().all(|(status, _)| status == "failed"), "{who:?}: {outcomes:?}");
        for entry in std::fs::read_dir(home.work()).expect("a folder").flatten() {
            let mode = std::os::unix::fs::PermissionsExt::mode(&entry.metadata().expect("it is there").permissions());
            assert_eq!(mode & 0o6000, 0, "{who:?}: {}", entry.path().display());
        }
    }
}

#[test]
fn what_a_rule_hides_is_hidden_however_deep_it_lies_and_however_much_of_it_there_is() {
    let deep = "d/".repeat(40);
    let scripts = [format!("cat {deep}.env many/*/.env"), format!("echo x > {deep}.env"), "ls many | wc -l".to_owned()];
    let (mut home, _script) = home(As::WhoeverTests, &script(&["bash 0.sh", "bash 1.sh", "bash 2.sh"], 20_000));
    scripts.iter().enumerate().for_each(|(at, script)| home.file(&format!("{at}.sh"), script));
    home.file(&format!("{deep}.env"), "DOTENV-7788");
    // More than one packet names.
    let long = "n".repeat(150);
    (0..1_500).for_each(|n| home.file(&format!("many/{long}{n}/.env"), "DOTENV-7788"));
    home.as_ordinary_user();
    let outcomes = outcomes(As::OrdinaryUser, &home);
    assert!(!format!("{outcomes:?}").contains("DOTENV-7788"), "{:.500}", outcomes[0].1);
    assert_eq!(outcomes[2].1, "1500\n", "{outcomes:?}");
    assert_eq!(std::fs::read_to_string(home.work().join(deep).join(".env")).expect("a file"), "DOTENV-7788");
    assert!(notes(&home).is_empty(), "{:?}", notes(&home));
}

#[test]
fn what_commands_are_not_confined_by_is_told_once_by_the_job_that_runs_some() {
    let (home, _script) = home(As::WithoutNamespaces, &script(&["true", "true"], 5_000));
    home.file(".env", "x");
    let output = home.command(&RUN).env("LAB_KEY", KEY).output().expect("ukai runs");
    let progress = String::from_utf8_lossy(&output.stderr).into_owned();
    let notes = notes(&home);
    let [note] = &notes[..] else { panic!("one note: {notes:?}") };
    for part in ["namespaces: unshare", ".env and its like inside the workdir are open", "can be seen in /proc"] {
        assert!(note.contains(part), "{note}");
    }
    assert_eq!(progress.matches("note: its commands are confined without").count(), 1, "{progress}");
    for (who, commands) in [(As::WithoutNamespaces, &[][..]), (As::WhoeverTests, &["true"])] {
        let (home, _script) = self::home(who, &script(commands, 5_000));
        let _ = home.command(&RUN).env("LAB_KEY", KEY).output().expect("ukai runs");
        assert!(self::notes(&home).is_empty(), "{who:?}");
    }
}

/// Processes directly below this one.
fn children(pid: u32) -> Vec<u32> {
    process::all().iter().filter(|seen| !seen.is_dead && seen.parent == pid).map(|seen| seen.pid).collect()
}

fn signal(pid: u32) -> nix::Result<()> {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid.cast_signed()), nix::sys::signal::SIGKILL)
}

#[test]
fn a_tool_host_that_is_killed_is_followed_by_another_and_nothing_is_run_twice() {
    for (who, seconds) in ALL.into_iter().zip([39_441, 39_442, 39_443]) {
        let sleep = format!("sleep\0{seconds}");
        let command = format!("echo once >> ran; sleep {seconds}");
        let (home, script) = home(who, &script(&[&command, "echo again"], 60_000));
        let mut run = home.command(&RUN).env("LAB_KEY", KEY).spawn().expect("ukai runs");
        wait::until("the command to run", || lives(&sleep).then_some(()));
        let [worker] = home.workers()[..] else { panic!("one worker: {:?}", home.workers()) };
        let [host] = children(worker)[..] else { panic!("one host: {:?}", children(worker)) };
        // Of the two with namespaces the inner one, which serves.
        let inner = if who == As::WithoutNamespaces { host } else { children(host)[0] };
        signal(inner).expect("killed");
        assert_eq!(run.wait().expect("ukai ends").code(), Some(0), "{who:?}");
        assert!(!lives(&sleep), "{who:?}");
        let all = finished(&home);
        let [first, second] = &all[..] else { panic!("{who:?}: two calls: {all:?}") };
        assert!(
            first["status"] == "unknown" && first["output"].as_str().is_some_and(|t| t.contains("outcome unknown")),
            "{who:?}: {first}"
        );
        assert_eq!((&second["status"], &second["output"]), (&json!("ok"), &json!("again\n")), "{who:?}");
        assert_eq!(std::fs::read_to_string(home.work().join("ran")).expect("it ran"), "once\n", "{who:?}");
        let [id] = &home.runs()[..] else { panic!("one run") };
        assert_eq!((home.count(id, "Interrupted"), script.requests()), (1, 3), "{who:?}: {:?}", home.events(id));
        assert!(!home.state_dir().join("runs").join(id).join("tmp").exists(), "{who:?}");
    }
}

#[test]
fn a_tool_host_that_always_dies_is_a_crash_loop() {
    let (home, _script) =
        home(As::WhoeverTests, "[[rule]]\nfault = { status = 429, headers = { retry-after = \"50\" } }\n");
    let mut run = home.command(&RUN).env("LAB_KEY", KEY).spawn().expect("ukai runs");
    let ended = wait::until("the job to be given up", || {
        for worker in home.workers() {
            // One that has been killed just now is gone by itself.
            for host in children(worker) {
                let _ = signal(host);
            }
        }
        run.try_wait().expect("a child")
    });
    assert_eq!(ended.code(), Some(1));
    let [id] = &home.runs()[..] else { panic!("one run") };
    let events = home.events(id);
    let last = events.last().expect("an end");
    assert!(last.to_string().contains("crash_loop") && last.to_string().contains("the tool host has died"), "{last}");
}
