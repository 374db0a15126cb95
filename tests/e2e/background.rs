//! What a job leaves in the background is its own: looked at and ended without a rule, and named for good (spec §7).

use std::os::unix::fs::PermissionsExt as _;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ukai_tests::home::Home;
use ukai_tests::wait;

/// Two in the background, then a command in which the worker dies; then what had been, and a new one.
const SCRIPT: &str = r#"
[[rule]]
when.step = 1
reply.calls = [{ tool = "Bash", args = { command = "echo one; sleep 300", run_in_background = true } }]
[[rule]]
when.step = 2
reply.calls = [{ tool = "Bash", args = { command = "true" } }]
[[rule]]
when.step = 3
reply.calls = [{ tool = "Bash", args = { command = "sleep 301", run_in_background = true } }]
[[rule]]
when.step = 4
reply.calls = [{ tool = "KillShell", args = { shell_id = "bash_2" } }]
[[rule]]
when.step = 5
reply.calls = [{ tool = "Bash", args = { command = "touch here; sleep 302" } }]
[[rule]]
when.step = 6
reply.calls = [{ tool = "BashOutput", args = { bash_id = "bash_1" } }]
[[rule]]
when.step = 7
reply.calls = [{ tool = "Bash", args = { command = "sleep 303", run_in_background = true } }]
[[rule]]
reply.text = "done"
"#;

#[test]
fn an_id_is_never_given_twice_and_one_of_an_earlier_process_is_known() {
    let (home, _script) = Home::with_script(SCRIPT);
    let _server = home.serve();
    home.file("job.toml", "prompt = \"go\"\n");
    let output = home.ukai(&["submit", "--file", "job.toml", "--allow", "Bash"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let id = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    wait::until("the last command before", || home.work().join("here").exists().then_some(()));
    for worker in home.workers() {
        kill(Pid::from_raw(i32::try_from(worker).expect("a pid")), Signal::SIGKILL).expect("it lives");
    }
    wait::until("the end", || (home.count(&id, "Finished") > 0).then_some(()));
    let events = home.events(&id);
    let finished = events.iter().filter(|record| record["event"] == "ToolFinished");
    let outputs: Vec<String> = finished.map(|record| record["data"]["output"].to_string()).collect();
    for (at, part) in [
        (0, "as bash_1."),
        (2, "as bash_2."),
        (3, "bash_2: it was ended"),
        (5, "bash_1 has ended"),
        (5, "Start it again"),
        (6, "in the background as bash_5."),
    ] {
        assert!(outputs[at].contains(part), "{at}: no {part} in {outputs:?}");
    }
    let denied = |record: &&serde_json::Value| record["data"]["judgement"]["verdict"] == "deny";
    assert!(!events.iter().any(|record| denied(&record)), "{events:?}");
}

#[test]
fn a_program_that_commands_may_not_run_hides_none_that_they_may() {
    let script = "[[rule]]\nwhen.step = 1\nreply.calls = [{ tool = \"Bash\", args = { command = \"whoami; echo $PATH\" } }]\n\
                  [[rule]]\nreply.text = \"done\"\n";
    let (home, _script) = Home::with_script(script);
    let user = home.path().join("user");
    let folders = [".asdf/shims", ".cargo/bin", ".local/bin"].map(|folder| user.join(folder));
    for folder in &folders {
        std::fs::create_dir_all(folder).expect("folders");
    }
    let shim = folders[0].join("whoami");
    std::fs::write(&shim, "#!/bin/sh\necho shim\n").expect("a shim");
    std::fs::set_permissions(&shim, std::fs::Permissions::from_mode(0o755)).expect("its mode");
    let path =
        folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(":") + ":/usr/bin:/bin";
    let mut run = home.command(&["run", "go", "--allow", "Bash"]);
    assert!(run.env("PATH", &path).env("HOME", &user).status().expect("ukai runs").success());
    let events = home.events(&home.runs()[0]);
    let finished = events.iter().find(|record| record["event"] == "ToolFinished").expect("a result");
    let output = finished["data"]["output"].as_str().expect("text");
    assert!(!output.contains("shim") && output.contains("/.cargo/bin:"), "{output}");
    let mut doctor = home.command(&["doctor"]);
    let said = doctor.env("PATH", &path).env("HOME", &user).output().expect("ukai runs").stdout;
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(said.contains("do not see the programs in") && said.contains("/.asdf/shims;"), "{said}");
}
