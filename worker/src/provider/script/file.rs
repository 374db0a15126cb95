//! A script as a file: rules in order, the first that fits a request plays. The format is described in `docs/script.md`.
//!
//! TOML, since texts of many lines and patterns full of backslashes read there as they are ('''…''') and errors know
//! their line. Everything that can be wrong about a rule is found here, before anyone connects.

#![deny(clippy::disallowed_methods)]

use serde::Deserialize;
use toml::Spanned;

use super::args::ArgTable;
use super::conversation::Wire;
use super::pause::Pause;
use super::rate::Rate;
use super::rule::When;
use super::template::Template;

/// Each request walks the rules, so their number is bounded too.
const RULES_MAX: usize = 1_000;
/// Calls that one `each` may make, unless `max` says less.
pub const EACH_CALLS_MAX: usize = 64;

#[derive(Clone, Debug)]
pub struct Script {
    /// Refuse requests without a key, as the real ones do.
    pub require_key: bool,
    /// Refuse requests with any other key.
    pub key: Option<String>,
    pub rate: Option<Rate>,
    pub defaults: Timing,
    pub rules: Vec<Rule>,
}

/// As it is written: what is wrong about a rule as a whole is told with the line at which it begins.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawScript {
    #[serde(default)]
    require_key: bool,
    key: Option<String>,
    rate: Option<Rate>,
    #[serde(default)]
    defaults: Timing,
    #[serde(default, rename = "rule")]
    rules: Vec<Spanned<RawRule>>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    pub latency: Option<Pause>,
    pub chunk_latency: Option<Pause>,
    pub chunk_chars: Option<std::num::NonZeroUsize>,
}

#[derive(Clone, Debug)]
pub struct Rule {
    pub name: Option<String>,
    pub when: When,
    /// Counted: plays only so often, per `per`.
    pub times: Option<u32>,
    pub per: Per,
    /// Counted: plays only so long, from the first request that its `when` fitted.
    pub first: Option<Pause>,
    pub reply: Option<Reply>,
    pub fault: Fault,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
    name: Option<String>,
    #[serde(default)]
    when: When,
    times: Option<u32>,
    per: Option<Per>,
    first: Option<Pause>,
    reply: Option<Reply>,
    fault: Option<Fault>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Per {
    #[default]
    Conversation,
    Step,
    Server,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reply {
    pub text: Option<Template>,
    pub reasoning: Option<Template>,
    #[serde(default)]
    pub calls: Vec<CallTemplate>,
    pub usage: Option<UsageTokens>,
    pub stop: Option<String>,
    #[serde(default)]
    pub headers: std::collections::BTreeMap<String, Template>,
    /// A whole JSON body, though a stream was asked for.
    #[serde(default)]
    pub whole: bool,
    pub latency: Option<Pause>,
    pub chunk_latency: Option<Pause>,
    pub chunk_chars: Option<std::num::NonZeroUsize>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallTemplate {
    pub tool: Template,
    #[serde(default)]
    pub args: ArgTable,
    /// The arguments as text, whatever it is; instead of `args`.
    pub raw_args: Option<Template>,
    pub id: Option<Template>,
    /// One call for each line of this text, which the other templates know as `{{item}}`.
    pub each: Option<Template>,
    pub max: Option<usize>,
    /// Left out, not an error, when one of its templates cannot be filled.
    #[serde(default)]
    pub optional: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UsageTokens {
    /// All of the input, cached included.
    pub input: u64,
    pub output: u64,
    #[serde(default)]
    pub cached: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    // Instead of a reply.
    pub status: Option<u16>,
    pub error: Option<Preset>,
    pub message: Option<Template>,
    pub body: Option<Template>,
    /// Gemini's way to name a wait, in the body: `"17s"`.
    pub retry_info: Option<Template>,
    #[serde(default)]
    pub headers: std::collections::BTreeMap<String, Template>,
    #[serde(default)]
    pub html: bool,
    #[serde(default)]
    pub empty_body: bool,
    /// Before the headers of what stands instead of a reply; a reply has its own.
    pub latency: Option<Pause>,
    // To a reply.
    pub hang: Option<Hang>,
    pub pings: Option<Pause>,
    pub after_chars: Option<usize>,
    #[serde(default)]
    pub cut: bool,
    #[serde(default)]
    pub torn: bool,
    #[serde(default)]
    pub error_event: bool,
    #[serde(default)]
    pub no_terminal_event: bool,
    #[serde(default)]
    pub duplicate_finish: bool,
    #[serde(default)]
    pub equal_index: bool,
    #[serde(default)]
    pub malformed_arguments: bool,
    #[serde(default)]
    pub cut_arguments: bool,
    pub slow_bytes: Option<Pause>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    ContextOverflow,
    Quota,
    ContentFilter,
    NoTools,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hang {
    BeforeHeaders,
    AfterHeaders,
    MidStream,
}

impl Script {
    pub fn parse(text: &str) -> Result<Script, String> {
        let RawScript { require_key, key, rate, defaults, rules } =
            toml::from_str(text).map_err(|why| why.to_string())?;
        let rules = rules.into_iter().map(|rule| {
            let line = text[..rule.span().start].matches('\n').count() + 1;
            let named = rule.get_ref().name.as_ref().map(|name| format!(" `{name}`")).unwrap_or_default();
            Rule::try_from(rule.into_inner()).map_err(|why| format!("the [[rule]]{named} at line {line}: {why}"))
        });
        let script = Script { require_key, key, rate, defaults, rules: rules.collect::<Result<_, _>>()? };
        if script.rules.is_empty() {
            return Err("it has no [[rule]], so it could answer nothing".to_owned());
        }
        if script.rules.len() > RULES_MAX {
            return Err(format!("it has {} rules, at most {RULES_MAX}", script.rules.len()));
        }
        Ok(script)
    }

    /// What is wrong with it where only this wire is served, or (`None`) all of them.
    pub fn fits(&self, served: Option<Wire>) -> Result<(), String> {
        for (at, rule) in self.rules.iter().enumerate() {
            let gemini = rule.when.wire.or(served) == Some(Wire::Gemini);
            if rule.fault.retry_info.is_some() && !gemini {
                return Err(format!(
                    "{} gives retry_info, which only the body of a Gemini error has; give the rule when.wire = \"gemini\", \
                     or serve with --wire gemini; on other wires use headers = {{ retry-after = \"17\" }}",
                    self.label(at)
                ));
            }
        }
        Ok(())
    }

    /// How messages name the rule: its name, else its number from 1.
    pub fn label(&self, at: usize) -> String {
        self.rules.get(at).and_then(|rule| rule.name.clone()).unwrap_or_else(|| format!("rule {}", at + 1))
    }
}

impl TryFrom<RawRule> for Rule {
    type Error = String;

    fn try_from(raw: RawRule) -> Result<Rule, String> {
        let fault = raw.fault.unwrap_or_default();
        let reply = raw.reply;
        let says = reply
            .as_ref()
            .is_some_and(|reply| reply.text.is_some() || reply.reasoning.is_some() || !reply.calls.is_empty());
        // With `error_event` they word the event, and the reply stands.
        let refuses = (fault.status.is_some() || fault.error.is_some()) && !fault.error_event;
        let instead = [refuses, fault.html, fault.empty_body, fault.hang == Some(Hang::BeforeHeaders)];
        let wrong = |why: &str| Err(format!("a rule {why}"));
        if instead.iter().filter(|is| **is).count() > 1 {
            return wrong("has one answer: give only one of status/error, html, empty_body, hang = \"before_headers\"");
        }
        let no_reply = instead.contains(&true);
        if no_reply && reply.is_some() {
            return wrong(
                "with a fault that is no reply (status, error, html, empty_body, hang) takes no [rule.reply]",
            );
        }
        if fault.latency.is_some() && (reply.is_some() || fault.hang.is_some()) {
            return wrong("gives a latency to a fault that has no headers of its own; give it to the [rule.reply]");
        }
        if !no_reply && reply.is_none() {
            return wrong("needs a [rule.reply], or a [rule.fault] that stands instead of one");
        }
        if !refuses && (fault.message.is_some() || fault.body.is_some()) && !fault.error_event {
            return wrong("gives a message or body, but no status or error (or error_event) that would carry it");
        }
        if fault.retry_info.is_some() && (fault.body.is_some() || !refuses && !fault.error_event) {
            return wrong("gives retry_info, but no status or error (or error_event) in whose own body it would stand");
        }
        if fault.status.is_some_and(|status| !(400..=599).contains(&status)) {
            return wrong("fails with a status from 400 to 599");
        }
        let places = [fault.cut, fault.error_event, fault.hang == Some(Hang::MidStream)];
        if places.iter().filter(|is| **is).count() > 1 {
            return wrong("breaks its stream in one way: give only one of cut, error_event, hang = \"mid_stream\"");
        }
        if fault.after_chars.is_some() && !places.contains(&true) {
            return wrong("gives after_chars, but no cut, error_event or hang = \"mid_stream\" there");
        }
        if fault.torn && !fault.cut {
            return wrong("gives torn, but no cut");
        }
        if fault.pings.is_some() && !matches!(fault.hang, Some(Hang::AfterHeaders | Hang::MidStream)) {
            return wrong("gives pings, but no hang = \"after_headers\" or \"mid_stream\" during which to send them");
        }
        if raw.per.is_some() && raw.times.is_none() {
            return wrong("gives per, but no times to count");
        }
        let breaks_args = fault.malformed_arguments || fault.cut_arguments || fault.equal_index;
        if breaks_args && reply.as_ref().is_none_or(|reply| reply.calls.is_empty()) {
            return wrong("breaks the arguments of calls, but its reply has none");
        }
        if reply.as_ref().is_some_and(|reply| !says && reply.stop.is_none()) {
            return wrong("has an empty reply; if it is meant, say so by stop = \"end\"");
        }
        if reply.iter().flat_map(|reply| &reply.calls).any(|call| call.raw_args.is_some() && !call.args.0.is_empty()) {
            return wrong("gives args and raw_args for one call; give one of them");
        }
        let names = reply.iter().flat_map(|reply| reply.headers.keys()).chain(fault.headers.keys());
        for name in names {
            if hyper::header::HeaderName::from_bytes(name.as_bytes()).is_err() {
                return wrong(&format!("sets a header '{name}', which is no name of one"));
            }
        }
        let per = raw.per.unwrap_or_default();
        Ok(Rule { name: raw.name, when: raw.when, times: raw.times, per, first: raw.first, reply, fault })
    }
}
