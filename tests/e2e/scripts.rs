//! Scripts that several promises share.

/// A survey of `steps` model calls: each but the last reads a file and searches for a word, both at once.
pub fn steps(steps: u32) -> String {
    steps_with(steps, "")
}

/// The same, with a latency such as `"20ms"` before each reply.
pub fn slow_steps(steps: u32, latency: &str) -> String {
    steps_with(steps, &format!("[defaults]\nlatency = \"{latency}\"\n"))
}

fn steps_with(steps: u32, head: &str) -> String {
    let last = steps - 1;
    format!(
        r#"
{head}
[[rule]]
name = "look"
when.step = {{ at_most = {last} }}
[rule.reply]
text = "Step {{{{step}}}}."
calls = [
    {{ tool = "Read", args = {{ file_path = "notes.txt" }} }},
    {{ tool = "Grep", args = {{ pattern = "line {{{{step}}}}$", output_mode = "count" }} }},
]
usage = {{ input = 100, output = 10 }}

[[rule]]
name = "end"
[rule.reply]
text = "Seen {{{{step}}}} steps. {{{{last}}}}"
usage = {{ input = 100, output = 10 }}
"#
    )
}

/// What those scripts read.
pub fn notes() -> String {
    (1..=30).map(|number| format!("line {number}\n")).collect()
}
