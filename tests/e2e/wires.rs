//! The same jobs on each wire against a server that judges: thoughts come back as they were, and a conversation may go over
//! from any wire to any other.

use serde_json::{Value, json};
use ukai_tests::home::{Home, lab};
use ukai_tests::script::Script;

use crate::scripts;

const WIRES: [&str; 3] = ["openai", "anthropic", "gemini"];
/// The second stands for the models that want every call of the current turn signed.
const MODELS: [&str; 2] = ["lab-1", "gemini-3-lab"];

/// Three steps of thinking and calling, then the rule `last`. `{ID}` is where a call may have an id of its own.
fn thinking(last: &str) -> String {
    format!(
        r#"
[[rule]]
when.step = {{ at_most = 3 }}
[rule.reply]
reasoning = "I think of {{{{step}}}}. 鵜"
text = "Step {{{{step}}}}."
calls = [
    {{ tool = "Read", {{ID}} args = {{ file_path = "notes.txt" }} }},
    {{ tool = "Grep", {{ID}} args = {{ pattern = "line {{{{step}}}}$", output_mode = "count" }} }},
]
[[rule]]
{last}
"#
    )
}

fn provider(id: &str, script: &Script, wire: &str, model: &str) -> String {
    lab(script, wire).replace("id = \"lab\"", &format!("id = \"{id}\"")).replace("\"lab-1\"", &format!("\"{model}\""))
}

fn refused(script: &Script) -> Vec<Value> {
    script.arrivals().into_iter().filter(|arrival| arrival["status"] == 400).collect()
}

fn check(name: &str, script: &str, wire: &str, model: &str) {
    let home = Home::new();
    let script = Script::serve(home.path(), script);
    home.configure(&provider("lab", &script, wire, model));
    home.file("notes.txt", &scripts::notes());
    let (code, result) = home.ukai_json(&["run", "look", "--output", "json"]);
    assert_eq!((code, &result["text"]), (0, &json!("Done.")), "{name} on {wire}, {model}: {result}");
    assert_eq!(refused(&script), Vec::<Value>::new(), "{name} on {wire}, {model}");
}

#[test]
fn thoughts_come_back_as_they_were() {
    let script = thinking("reply = { text = \"Done.\", reasoning = \"Enough.\" }").replace("{ID}", "");
    for wire in WIRES {
        for model in MODELS {
            check("thoughts", &script, wire, model);
        }
    }
}

#[test]
fn calls_without_ids_are_told_apart() {
    let script = thinking("reply = { text = \"Done.\" }").replace("{ID}", "id = \"\",");
    for model in MODELS {
        check("no ids", &script, "gemini", model);
    }
}

#[test]
fn a_wait_in_the_body_is_obeyed() {
    let script = "[[rule]]\nwhen.wire = \"gemini\"\ntimes = 1\nfault = { status = 429, retry_info = \"1.2s\" }\n\
                  [[rule]]\nreply.text = \"Done.\"\n";
    let home = Home::new();
    let script = Script::serve(home.path(), script);
    home.configure(&lab(&script, "gemini"));
    let (code, result) = home.ukai_json(&["run", "look", "--output", "json"]);
    let arrivals = script.arrivals();
    assert_eq!((code, arrivals.len()), (0, 2), "{result}");
    let ms = |at: usize, key: &str| arrivals[at][key].as_f64().expect("a number");
    assert!(ms(1, "at_ms") - ms(0, "answered_ms") >= 1_200.0, "{arrivals:?}");
}

#[test]
fn a_conversation_goes_over_from_any_wire_to_any_other() {
    // What is written is another wire's own when no id says that it comes from here.
    let leaves = thinking("fault = { status = 401 }").replacen("{ID}", "id = \"own_{{step}}_a\",", 1);
    let leaves = leaves.replacen("{ID}", "id = \"own_{{step}}_b\",", 1);
    let takes_over = "[[rule]]\nwhen.step = 4\nreply.calls = [{ tool = \"Read\", args = { file_path = \"notes.txt\" } }]\n\
                      [[rule]]\nreply.text = \"Done.\"\n";
    for (from, to) in WIRES.iter().flat_map(|from| WIRES.map(|to| (*from, to))).filter(|(from, to)| from != to) {
        for model in MODELS {
            let home = Home::new();
            let (first, second) = (Script::serve(home.path(), &leaves), Script::serve(home.path(), takes_over));
            home.configure(&(provider("first", &first, from, model) + &provider("second", &second, to, model)));
            home.file("notes.txt", &scripts::notes());
            let (code, result) = home.ukai_json(&["run", "look", "--output", "json"]);
            let found = (code, &result["text"], first.arrivals().len(), second.arrivals().len());
            assert_eq!(found, (0, &json!("Done."), 4, 2), "{from} to {to}, {model}: {result}");
            assert_eq!((refused(&first), refused(&second)), (Vec::new(), Vec::new()), "{from} to {to}, {model}");
        }
    }
}
