//! What each kind of list says, and what makes a list unusable.

use proptest::collection;
use proptest::prelude::*;

use super::*;

/// The lines as `number: field=value,…`, fields in the order of their names.
fn read(name: &str, bytes: &[u8]) -> Result<Vec<String>, String> {
    let items = parse(bytes, &Path::new("/l").join(name)).map_err(|fault| fault.to_string())?;
    let shown = |item: &Item| {
        let fields = item.fields.iter().map(|(field, value)| format!("{field}={value}"));
        format!("{}: {}", item.number, fields.collect::<Vec<_>>().join(","))
    };
    Ok(items.lines.iter().map(shown).collect())
}

fn check(name: &str, cases: &[(&str, &[&str])]) {
    for (text, lines) in cases {
        assert_eq!(read(name, text.as_bytes()), Ok(lines.iter().map(|line| (*line).to_owned()).collect()), "{text:?}");
    }
}

fn check_faults(name: &str, cases: &[(&str, &str, &str)]) {
    for (text, place, part) in cases {
        let error = read(name, text.as_bytes()).expect_err(text);
        let place = format!("/l/{name}{place}: ");
        assert!(error.starts_with(&place) && error.contains(part), "{text:?}\n{error}\nlacks {place}{part}");
        assert!(!error.contains("sk-"), "{text:?} is quoted: {error}");
    }
}

#[test]
fn a_text_is_a_line_as_it_stands() {
    check(
        "a.txt",
        &[
            ("a\nb\n", &["1: line=a", "2: line=b"]),
            ("a\nb", &["1: line=a", "2: line=b"]),
            ("a\r\nb\r\n", &["1: line=a", "2: line=b"]),
            ("\u{feff}a\n", &["1: line=a"]),
            ("\n \t\n\r\n\u{3000}\na\n\n", &["5: line=a"]),
            ("  a \t b  \n", &["1: line=  a \t b  "]),
            ("a\rb\n", &["1: line=a\rb"]),
            ("{{line}}\n\"a,b\"\n", &["1: line={{line}}", "2: line=\"a,b\""]),
            ("鵜飼 🐦‍⬛\n", &["1: line=鵜飼 🐦‍⬛"]),
            ("same\nsame\n", &["1: line=same", "2: line=same"]),
        ],
    );
}

#[test]
fn a_table_has_a_header_and_a_line_per_row() {
    check(
        "a.csv",
        &[
            ("a,b\n1,2\n3,4\n", &["2: a=1,b=2", "3: a=3,b=4"]),
            ("a,b\n1,2", &["2: a=1,b=2"]),
            ("a\n1", &["2: a=1"]),
            ("a,b\r\n1,2\r\n\r\n3,4\r\n", &["2: a=1,b=2", "4: a=3,b=4"]),
            ("a,b\r1,2\r\r3,4\r", &["2: a=1,b=2", "4: a=3,b=4"]),
            ("\u{feff}a,b\n1,2\n", &["2: a=1,b=2"]),
            ("\u{feff}\"a\",b\n1,2\n", &["2: a=1,b=2"]),
            ("\n \n a , b c \n1, 2 \n", &["4: a=1,b c= 2 "]),
            ("a,b\n1,2\n\n   \n\t\n3,4\n\n", &["2: a=1,b=2", "6: a=3,b=4"]),
            ("a\n1\n  \n\n2\n", &["2: a=1", "5: a=2"]),
            ("a,b\n\"x,\n\ny\",\"say \"\"hi\"\"\"\n3,4\n", &["2: a=x,\n\ny,b=say \"hi\"", "5: a=3,b=4"]),
            ("a,b\n\"x\r\ny\",2\r\n3,4", &["2: a=x\r\ny,b=2", "4: a=3,b=4"]),
            ("\"a\nb\",c\n1,2\n", &["3: a\nb=1,c=2"]),
            ("a\n\"\"\n", &["2: a="]),
            ("a,b\n,\n", &["2: a=,b="]),
            ("a\n\" \"\n", &["2: a= "]),
            ("a,b\n{{b}},}}\n", &["2: a={{b}},b=}}"]),
            ("a\nx\"y\n\"\"\"\"\n", &["2: a=x\"y", "3: a=\""]),
            ("鳥,b\n🐦,é\n", &["2: b=é,鳥=🐦"]),
            ("a\n\"last\"", &["2: a=last"]),
            ("a,b\n\"\",\"\"\"x\"\"\"\n\",\",x\n", &["2: a=,b=\"x\"", "3: a=,,b=x"]),
            ("a,b\r\n\"1\",\"2\"\r\n\r\n\"3\",\"4\"", &["2: a=1,b=2", "4: a=3,b=4"]),
        ],
    );
}

#[test]
fn a_bad_row_is_named() {
    check_faults(
        "a.csv",
        &[
            ("a,b\n1,2\nsk-1\n", ", line 3", "the header has 2 fields, and it has 1"),
            ("a,b\n\n1,2,sk-1\n", ", line 3", "the header has 2 fields, and it has 3"),
            ("a,b\n\"x\ny\",2\n1\n", ", line 4", "the header has 2 fields, and it has 1"),
            ("a,b,a\n1,2,3\n", ", line 1", "names `a` twice"),
            ("a, a\n1,2\n", ", line 1", "names `a` twice"),
            ("\na,,c\n1,2,3\n", ", line 2", "no name for field 2"),
            (",a\n1,2\n", ", line 1", "no name for field 1"),
            ("\"\"\n1\n", ", line 1", "no name for field 1"),
            ("a\n1\n\"sk-1\n3\n4\n", ", line 3", "is never closed"),
            ("a\n1\n\"sk-1", ", line 3", "is never closed"),
            ("a\n1\n\"", ", line 3", "is never closed"),
            ("a,b\n1,\"sk-1\"\"\n3,4\n", ", line 2", "is never closed"),
            ("\"a,b\n1,2\n", ", line 1", "is never closed"),
            ("a,b\n1,2\n\"say \"sk-1\" now\",2\n", ", line 3", "text follows a closing quote"),
            ("a,b\n1,\"sk-1\" \n", ", line 2", "text follows a closing quote"),
            ("a,b\n\"x\ny\",\"\"sk-1\n", ", line 2", "text follows a closing quote"),
            ("\"a\"b\n1\n", ", line 1", "text follows a closing quote"),
            ("a,b\n1, \"x,sk-1\"\n", ", line 2", "the header has 2 fields, and it has 3"),
            ("a,b\n", "", "no lines below its header"),
            ("a,b", "", "no lines below its header"),
            ("", "", "no lines below its header"),
        ],
    );
}

#[test]
fn an_object_is_a_line_and_its_values_stand_as_written() {
    check(
        "a.jsonl",
        &[
            ("{\"a\":\"x\"}\n{\"b\":\"y\"}\n", &["1: a=x", "2: b=y"]),
            ("\u{feff}{\"a\":\"x\"}\r\n\r\n \n{\"a\":\"y\"}", &["1: a=x", "4: a=y"]),
            ("{\"a\": 1, \"b\": -1.50e3, \"c\": true, \"d\": false}\n", &["1: a=1,b=-1.50e3,c=true,d=false"]),
            ("{\"a\": 123456789012345678901234567890.10}\n", &["1: a=123456789012345678901234567890.10"]),
            ("{\"a\": [ 1 , \"x  \\\" y\", {\"b\" : null } ]}\n", &["1: a=[1,\"x  \\\" y\",{\"b\":null}]"]),
            ("{\"a\": { \"k\\\\\" : \"{ }\" }}\n", &["1: a={\"k\\\\\":\"{ }\"}"]),
            ("{\"a\": \"l1\\nl2\\t\\u00e9\\ud83d\\udc26 🐦\"}\n", &["1: a=l1\nl2\té🐦 🐦"]),
            ("{\"a\": null, \"b\": \"\"}\n", &["1: b="]),
            ("{\" a \": 1}\n", &["1: a=1"]),
            ("  {\"a\": \"}}{{a}}\"}  \n{}\n", &["1: a=}}{{a}}", "2: "]),
        ],
    );
    assert_eq!(read("a.ndjson", b"{\"a\":1}"), Ok(vec!["1: a=1".to_owned()]));
    assert_eq!(read("A.JSONL", b"{\"a\":1}"), Ok(vec!["1: a=1".to_owned()]));
}

#[test]
fn a_line_that_is_no_object_is_named() {
    check_faults(
        "a.jsonl",
        &[
            ("{\"a\":1}\n\n\"sk-1\"\n", ", line 3", "it is no JSON object"),
            ("[{\"a\":\"sk-1\"}]\n", ", line 1", "it is no JSON object"),
            ("12\n", ", line 1", "it is no JSON object"),
            ("null\n", ", line 1", "it is no JSON object"),
            ("{\"a\":1}\nsk-1\n", ", line 2", "it is no JSON: expected value (column 1)"),
            ("{\"a\":\"sk-1\"\n}\n", ", line 1", "it is no JSON: EOF while parsing an object (column 11)"),
            ("{\"a\":1} {\"a\":2}\n", ", line 1", "it is no JSON: trailing characters (column 9)"),
            ("{a:1}\n", ", line 1", "it is no JSON"),
            ("{\"a\":01}\n", ", line 1", "it is no JSON"),
            ("{\"a\":NaN}\n", ", line 1", "it is no JSON"),
            ("{\"a\":1,\"b\":2,\"a\":3}\n", ", line 1", "the key `a` stands there twice"),
            ("{\"a\":null,\"a\":3}\n", ", line 1", "the key `a` stands there twice"),
            ("{\"a\":null,\"a\":null}\n", ", line 1", "the key `a` stands there twice"),
            ("{\"a\":1,\"\\u0061\":3}\n", ", line 1", "the key `a` stands there twice"),
            ("{\"a\":\"\\ud800\"}\n", ", line 1", "the value of `a` is no text"),
            ("\n \n", "", "it has no lines"),
        ],
    );
}

#[test]
fn a_list_that_cannot_be_read_says_what_to_do() {
    let kinds = "none of .txt (a text per line), .csv (with a header), .jsonl or .ndjson";
    for (name, bytes, place, part) in [
        ("a.json", &b"{}"[..], "", kinds),
        ("a", b"x", "", kinds),
        (".txt", b"x", "", kinds),
        ("a.tsv", b"x", "", kinds),
        ("a.txt", b"", "", "it has no lines"),
        ("a.txt", b"\xef\xbb\xbf", "", "it has no lines"),
        ("a.txt", b" \n\r\n\t", "", "it has no lines"),
        ("a.txt", b"a\nb\n\xff\n", ", line 3", "it is not UTF-8 text; save the list as UTF-8"),
        ("a.csv", b"a\n\n\"x\n\xc3\"\n", ", line 4", "it is not UTF-8 text"),
        ("a.jsonl", b"\xff\xfe{\0", ", line 1", "it is not UTF-8 text"),
    ] {
        let error = read(name, bytes).expect_err(part);
        let place = format!("/l/{name}{place}: ");
        assert!(error.starts_with(&place) && error.contains(part), "{error}\nlacks {place}{part}");
    }
}

#[test]
fn a_list_holds_what_a_queue_holds_and_no_more() {
    for (name, header, line) in [("a.txt", "", "x\n"), ("a.csv", "a,b\n", "1,2\n"), ("a.jsonl", "", "{\"a\":1}\n")] {
        let full = format!("{header}{}", line.repeat(ITEMS_MAX));
        let last = ITEMS_MAX + header.lines().count();
        let items = parse(full.as_bytes(), Path::new(name)).expect("as many as may be");
        assert_eq!((items.lines.len(), items.lines[ITEMS_MAX - 1].number), (ITEMS_MAX, last as u64));
        let error = read(name, format!("{full}\n\n{line}").as_bytes()).expect_err("one more");
        assert!(error.contains(&format!("line {}: there are more than 10000 lines", last + 3)), "{error}");
        // Blank lines do not count.
        assert_eq!(read(name, format!("{full}\n \n").as_bytes()).map(|lines| lines.len()), Ok(ITEMS_MAX));
    }
    let error = read("a.txt", &vec![b'x'; ITEMS_BYTES_MAX + 1]).expect_err("too long");
    assert!(error.contains("longer than 67108864 bytes"), "{error}");
}

#[test]
fn fields_are_bounded_and_come_as_they_come_up() {
    let items = |name: &str, text: &str| parse(text.as_bytes(), Path::new(name)).map(|items| items.fields);
    assert_eq!(items("a.txt", "x"), Ok(vec!["line".to_owned()]));
    assert_eq!(items("a.csv", "b,a\n1,2\n"), Ok(vec!["b".to_owned(), "a".to_owned()]));
    assert_eq!(items("a.jsonl", "{\"b\":1}\n{\"a\":null,\"b\":2}\n"), Ok(vec!["b".to_owned(), "a".to_owned()]));
    let names = |count: usize| (0..count).map(|number| format!("f{number}")).collect::<Vec<_>>().join(",");
    let values = |count: usize| vec!["1"; count].join(",");
    let table = |count: usize| format!("{}\n{}\n", names(count), values(count));
    assert_eq!(items("a.csv", &table(FIELDS_MAX)).map(|fields| fields.len()), Ok(FIELDS_MAX));
    let long = "f".repeat(FIELD_CHARS_MAX + 1);
    for (name, text, part) in [
        ("a.csv", table(FIELDS_MAX + 1), "line 1: there are more than 256 fields"),
        ("a.csv", format!("{long}\n1\n"), "line 1: the name of a field is longer than 100 characters"),
        ("a.jsonl", format!("{{\"a\":1}}\n{{\"{long}\":1}}\n"), "line 2: the name of a field is longer"),
    ] {
        let error = items(name, &text).expect_err(part).to_string();
        assert!(error.contains(part), "{error}");
    }
}

proptest! {
    #[test]
    fn what_a_table_quotes_is_read_back_in_its_place(
        rows in collection::vec((("[a,\"\r\n {}🐦]{0,5}", "[a,\"\r\n {}🐦]{0,5}"), "\r?\n(  \n|\n|\r\n){0,2}"), 1..8),
    ) {
        let quoted = |value: &str| format!("\"{}\"", value.replace('"', "\"\""));
        let ends = |text: &str| {
            text.bytes().zip(text.bytes().skip(1).chain([0])).filter(|(a, b)| *a == b'\n' || (*a == b'\r' && *b != b'\n')).count()
        };
        let mut text = "a,b\n".to_owned();
        let mut expected = Vec::new();
        for ((a, b), end) in &rows {
            let fields = BTreeMap::from([("a".to_owned(), a.clone()), ("b".to_owned(), b.clone())]);
            expected.push(Item { number: ends(&text) as u64 + 1, fields });
            text += &format!("{},{}{end}", quoted(a), quoted(b));
        }
        prop_assert_eq!(parse(text.as_bytes(), Path::new("a.csv")).map(|items| items.lines), Ok(expected));
    }

    #[test]
    fn whatever_a_list_holds_is_read_or_refused(
        text in "([a1🐦\u{feff}\r\n\",{}:\\[\\] \t]|\"a\"|\\{\"a\":){0,40}",
        ending in prop_oneof![Just("txt"), Just("csv"), Just("jsonl")],
    ) {
        if let Ok(items) = parse(text.as_bytes(), Path::new(&format!("a.{ending}"))) {
            let last = text.matches(['\r', '\n']).count() as u64 + 1;
            let numbers: Vec<_> = items.lines.iter().map(|item| item.number).collect();
            prop_assert!(!numbers.is_empty() && numbers.is_sorted() && numbers.iter().all(|number| *number <= last));
            prop_assert!(items.lines.iter().all(|item| item.fields.keys().all(|field| items.fields.contains(field))));
        }
    }
}
