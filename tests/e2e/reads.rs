//! What a job may not read is refused, with a result that the model can use.

use std::os::unix::fs::symlink;

use ukai_tests::home::Home;

/// One reply asks for everything; the next says all the answers.
fn script(calls: &str) -> String {
    format!("[[rule]]\nwhen.step = 1\nreply.calls = [{calls}]\n[[rule]]\nreply.text = \"seen\"\n")
}

fn read(path: &str) -> String {
    format!("{{ tool = \"Read\", args = {{ file_path = '{path}' }} }}")
}

/// The answers to the calls of the only turn, in their order.
fn answers(home: &Home, calls: &[String]) -> Vec<(String, String)> {
    let provider = ukai_tests::script::Script::serve(home.path(), &script(&calls.join(",")));
    home.configure(&ukai_tests::home::lab(&provider, "openai"));
    let (code, result) = home.ukai_json(&["run", "read", "--output", "json"]);
    assert!(code == 0 || code == 7, "{result}");
    let events = home.events(result["job_id"].as_str().expect("an id"));
    let replied = events.iter().find(|record| record["event"] == "Replied").expect("a reply");
    let ids = replied["data"]["calls"].as_array().expect("calls").iter().map(|call| call["id"].clone());
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    ids.map(|id| {
        let finished = |record: &&serde_json::Value| record["event"] == "ToolFinished" && record["data"]["call"] == id;
        let data = &events.iter().find(finished).unwrap_or_else(|| panic!("{id} has no answer"))["data"];
        (text(&data["status"]), text(&data["output"]))
    })
    .collect()
}

#[test]
fn outside_the_roots_by_any_road() {
    let home = Home::new();
    let outside = home.path().join("outside.txt");
    std::fs::write(&outside, "a secret of the owner").expect("a file");
    home.file("inside.txt", "for all to read");
    symlink(&outside, home.work().join("link")).expect("a link");
    symlink(home.path(), home.work().join("folder")).expect("a link");
    symlink("inside.txt", home.work().join("good-link")).expect("a link");
    symlink("/nowhere/at/all", home.work().join("dangling")).expect("a link");
    let outside = outside.to_str().expect("UTF-8");
    let refused = [
        outside,
        "../outside.txt",
        "link",
        "folder/outside.txt",
        "sub/../../outside.txt",
        "/etc/passwd",
        "/proc/self/environ",
        "dangling",
    ];
    let calls: Vec<_> = refused.iter().map(|path| read(path)).collect();
    for (path, (status, output)) in refused.iter().zip(answers(&home, &calls)) {
        assert!(status == "denied" || status == "failed", "{path}: {status} {output}");
        assert!(!output.contains("a secret of the owner"), "{path}: {output}");
        assert!(output.len() > 20, "{path}: the model learns nothing from {output:?}");
    }
    for (status, output) in answers(&home, &[read("good-link"), read("inside.txt")]) {
        assert_eq!(status, "ok");
        assert!(output.contains("for all to read"), "{output}");
    }
}

#[test]
fn secrets_by_name_from_each_tool() {
    let home = Home::new();
    for name in [".env", ".env.local", ".ENV", "deep/er/.env"] {
        home.file(name, "KEY=hunter2");
    }
    home.file("plain.txt", "KEY=public");
    symlink(".env", home.work().join("innocent")).expect("a link");
    let mut calls: Vec<_> = [".env", ".env.local", ".ENV", "deep/er/.env", "innocent"].map(read).into();
    calls.push("{ tool = \"Grep\", args = { pattern = \"KEY\", output_mode = \"content\" } }".to_owned());
    calls.push("{ tool = \"Glob\", args = { pattern = \"**/*\" } }".to_owned());
    calls.push("{ tool = \"Grep\", args = { pattern = \"KEY\", path = \".env\" } }".to_owned());
    for (call, (_, output)) in calls.iter().zip(answers(&home, &calls)) {
        assert!(!output.contains("hunter2"), "{call}: {output}");
    }
    let seen = answers(&home, &calls[5..6]);
    assert!(seen[0].1.contains("public"), "{seen:?}");
}

#[test]
fn what_is_no_file_to_read() {
    let home = Home::new();
    nix::unistd::mkfifo(&home.work().join("fifo"), nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    let sparse = std::fs::File::create(home.work().join("sparse")).expect("a file");
    sparse.set_len(10 << 30).expect("10 GB of nothing");
    std::fs::create_dir(home.work().join("folder")).expect("a folder");
    let _socket = std::os::unix::net::UnixListener::bind(home.work().join("socket")).expect("a socket");
    let names = ["fifo", "sparse", "folder", "socket", "/dev/zero", "missing"];
    let calls: Vec<_> = names.iter().map(|name| read(name)).collect();
    for (name, (status, output)) in names.iter().zip(answers(&home, &calls)) {
        assert_ne!(status, "ok", "{name}: {output:.200}");
        assert!(output.contains(name), "{name}: {output:.200}");
    }
    let search = "{ tool = \"Grep\", args = { pattern = \"x\" } }".to_owned();
    assert_eq!(answers(&home, &[search])[0].0, "ok", "a search walks past what it cannot read");
}
