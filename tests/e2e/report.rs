//! The six figures are those of the logs, per period, and the page says what they speak for (spec §13).

use ukai_tests::home::Home;

use crate::scripts;

#[test]
fn figures_and_page_are_those_of_what_happened() {
    let (home, script) = Home::with_script(&format!(
        "[[rule]]\nwhen.step = 2\ntimes = 1\nper = \"server\"\nfault = {{ status = 429, headers = {{ retry-after = \"1\" }} }}\n{}",
        scripts::steps(4)
    ));
    home.file("notes.txt", &scripts::notes());
    assert_eq!(home.ukai(&["run", "look"]).status.code(), Some(0));
    assert_eq!(home.ukai(&["run", "look", "--limit", "steps=2"]).status.code(), Some(4));
    let (code, report) = home.ukai_json(&["report", "--output", "json"]);
    let period = &report["period"];
    assert_eq!(
        (code, &period["requests"], &period["rate_limited"]),
        (0, &script.requests().into(), &1.into()),
        "{report}"
    );
    assert_eq!((&period["ended"], &period["completed"], &period["aborted"]), (&2.into(), &1.into(), &1.into()));
    assert_eq!(period["aborts"]["breaker_open(limit(steps))"], 1);
    assert_eq!(period["tokens"]["input"], 600);
    assert_eq!(report["before"]["requests"], 0);

    // What is the period now was nothing before, and is the one before in an hour.
    let hour = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    let (_, later) = home.ukai_json(&["report", "--period", "1h", "--until", &hour.to_string(), "--output", "json"]);
    assert_eq!((&later["before"]["ended"], &later["period"]["ended"]), (&2.into(), &0.into()), "{later}");

    let page = home.ukai(&["report", "--go-no-go", "-"]);
    let page = String::from_utf8_lossy(&page.stdout).into_owned();
    assert!(
        page.starts_with("# Go / No-Go") && page.contains("**Go**: above their reference values: 429 frequency"),
        "{page}"
    );
    for (stood, part) in [(false, "page.md\n"), (true, "in place of the file that stood there")] {
        let written = home.ukai(&["report", "--go-no-go", "page.md"]);
        let said = String::from_utf8_lossy(&written.stderr).into_owned();
        assert!(said.contains("the page is written to") && said.contains(part), "{stood}: {said}");
    }
    // A date is a whole day: of today as its end all has happened in it, and of today as its beginning too.
    let today = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
    for typed in [["--until", &*today], ["--since", &*today]] {
        let (code, report) = home.ukai_json(&["report", typed[0], typed[1], "--output", "json"]);
        assert_eq!((code, &report["period"]["ended"]), (0, &2.into()), "{typed:?}: {report}");
    }
    for (wrong, part) in [
        (["report", "--period", "soon"], "it is no duration"),
        (["report", "--until", "tomorrow"], "write one like 2026-11-30"),
        (["report", "--period", "9861750d"], "name a shorter one"),
    ] {
        let refused = home.ukai(&wrong);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(2) && said.contains(part), "{wrong:?}: {said}");
    }
}
