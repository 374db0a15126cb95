//! What a declaration means, and what is wrong with one.

use super::*;

fn parsed(text: &str) -> Result<Declared, String> {
    let file = Path::new("/c/ukai/tools/deploy.toml");
    parse(text, file, Some(Path::new("/home/u"))).map_err(|fault| fault.to_string())
}

const HEAD: &str = "name = \"deploy\"\ndescription = \"Deploys.\"\n";

#[test]
fn a_tool_is_what_its_file_says() {
    let text = "name = \"deploy\"\ndescription = \"Deploys.\"\ncommand = [\"./deploy.sh\", \"-v\"]\ntimeout = \"30s\"\n\
        [schema]\nrequired = [\"to\"]\nproperties.to = {type = \"string\", enum = [\"test\", \"live\"]}\n\
        [flags]\nidempotent = true\ncancels_siblings = false\n";
    let tool = parsed(text).expect("it loads");
    assert_eq!(tool.run, Run::Command(vec!["/c/ukai/tools/deploy.sh".into(), "-v".into()]));
    assert_eq!((tool.timeout_ms, tool.flags.idempotent, tool.flags.cancels_siblings), (30_000, true, false));
    let schema = r#"{"properties":{"to":{"enum":["test","live"],"type":"string"}},"required":["to"],"type":"object"}"#;
    assert_eq!(tool.schema.to_text(), schema);
    let plain = parsed(&format!("{HEAD}http = \"http://localhost:7001/command\"\n")).expect("it loads");
    assert_eq!(plain.run, Run::Http("http://127.0.0.1:7001/command".into()));
    assert_eq!((plain.timeout_ms, plain.flags), (TIMEOUT_MS, DeclaredFlags::default()));
    assert!(plain.schema.to_text().contains("\"additionalProperties\":false"));
}

#[test]
fn a_program_is_found_from_its_file() {
    for (word, expected) in [
        ("make", "make"),
        ("/usr/bin/make", "/usr/bin/make"),
        ("bin/x", "/c/ukai/tools/bin/x"),
        ("~/bin/x", "/home/u/bin/x"),
    ] {
        let tool = parsed(&format!("{HEAD}command = [\"{word}\"]\n")).expect(word);
        assert_eq!(tool.run, Run::Command(vec![expected.into()]), "{word}");
    }
}

#[test]
fn each_mistake_names_its_place() {
    let command = "command = [\"x\"]\n";
    for (text, parts) in [
        (format!("{HEAD}comand = [\"x\"]\n"), &["deploy.toml, line 3", "`comand`", "did you mean `command`"][..]),
        (HEAD.to_owned(), &["line 1", "neither `command` nor `http`"]),
        (format!("{HEAD}{command}http = \"http://127.0.0.1:1/\"\n"), &["line 4", "`http`", "keep one"]),
        ("description = \"x\"\n".to_owned(), &["missing field `name`"]),
        (format!("name = \"Deploy\"\ndescription = \"x\"\n{command}"), &["line 1", "`name`", "a-z"]),
        (format!("name = \"deploy\"\ndescription = \" \"\n{command}"), &["line 2", "`description`"]),
        (format!("{HEAD}command = []\n"), &["line 3", "`command`", "no program"]),
        (format!("{HEAD}{command}timeout = \"11m\"\n"), &["line 4", "`timeout`", "1ms to 10m"]),
        (format!("{HEAD}{command}[flags]\nreadonly = true\n"), &["line 5", "`readonly`", "did you mean `read_only`"]),
        (format!("{HEAD}{command}[flags]\nread_only = true\ndestructive = true\n"), &["`flags`", "not destructive"]),
        (format!("{HEAD}{command}[schema]\ntype = \"string\"\n"), &["line 5", "`type`", "an object"]),
        (format!("{HEAD}{command}[schema]\nproperties.a.typ = \"string\"\n"), &["`typ`", "did you mean `type`"]),
        (format!("{HEAD}{command}[schema.properties.a]\ntype = \"text\"\n"), &["line 5", "`type`", "no type of JSON"]),
        (format!("{HEAD}{command}[schema.properties.a]\n\"$ref\" = \"#/x\"\n"), &["`$ref`", "let the tool see to it"]),
        (format!("{HEAD}{command}[schema.properties]\na = 1\n"), &["`properties`", "no schema"]),
    ] {
        let error = parsed(&text).expect_err(&text);
        for part in parts {
            assert!(error.contains(part), "{text}\n{error}\nlacks {part}");
        }
    }
}

#[test]
fn only_this_machine_is_asked() {
    for (url, expected) in [
        ("http://127.0.0.1:7001/command", Ok("http://127.0.0.1:7001/command")),
        ("http://127.9.9.9/x", Ok("http://127.9.9.9/x")),
        ("http://[::1]:80/x", Ok("http://[::1]:80/x")),
        ("http://LOCALHOST", Ok("http://127.0.0.1")),
        ("https://127.0.0.1/x", Err("only http://")),
        ("http://10.0.0.1/x", Err("only http://")),
        ("http://localhost.evil.com/x", Err("only http://")),
        ("http://u:p@127.0.0.1/x", Err("user name")),
        ("http://127.0.0.1@evil.com/x", Err("user name")),
        ("http://127.0.0.1:7001/x?y", Err("`?`")),
        ("ftp://127.0.0.1/x", Err("no http")),
        ("http://0.0.0.0:1/x", Err("only http://")),
    ] {
        let found = parsed(&format!("{HEAD}http = \"{url}\"\n"));
        match (&found, expected) {
            (Ok(tool), Ok(expected)) => assert_eq!(tool.run, Run::Http(expected.to_owned()), "{url}"),
            (Err(why), Err(part)) => assert!(why.contains(part), "{url}: {why}"),
            _ => panic!("{url}: {found:?}"),
        }
    }
}

#[test]
fn of_two_of_one_name_the_earlier_holds_and_none_is_called_like_one_of_ours() {
    let text = |file: &str, name: &str| read::Text {
        file: file.into(),
        text: format!("name = \"{name}\"\ndescription = \"x\"\ncommand = [\"x\"]\n"),
    };
    let texts = [text("/c/b.toml", "b"), text("/c/a.toml", "a"), text("/w/a.toml", "a"), text("/w/read.toml", "read")];
    let mut notes = Vec::new();
    let tools = read::together(&texts.iter().collect::<Vec<_>>(), &mut notes).expect("they load");
    let places: Vec<_> = tools.iter().map(|tool| (&*tool.name, tool.file.to_str())).collect();
    assert_eq!(places, [("a", Some("/c/a.toml")), ("b", Some("/c/b.toml"))]);
    assert!(notes[0].contains("/w/a.toml") && notes[0].contains("an earlier one"), "{notes:?}");
    assert!(notes[1].contains("`read`") && notes[1].contains("ukai's own"), "{notes:?}");
}
