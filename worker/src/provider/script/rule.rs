//! Which requests a rule plays for. Every condition looks at what the request contains; all of them must hold.

#![deny(clippy::disallowed_methods)]

use std::collections::BTreeMap;

use regex::Regex;
use serde::de::value::MapAccessDeserializer;
use serde::{Deserialize, Deserializer, de};

use super::conversation::{Conversation, Turn, Wire};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct When {
    pub wire: Option<Wire>,
    pub model: Option<Text>,
    pub system: Option<Text>,
    /// The first text of the user.
    pub prompt: Option<Text>,
    pub last_user: Option<Text>,
    /// What the request ends with.
    pub last: Option<Last>,
    /// One of the results at the end is of this tool.
    pub result_of: Option<String>,
    /// One of the results at the end answers this call.
    pub result_of_call: Option<String>,
    /// One of the results at the end (of `result_of`'s tool, where that is given) reads so.
    pub result: Option<Text>,
    /// How many results of each tool the whole request holds.
    #[serde(default)]
    pub results: BTreeMap<String, Number>,
    pub step: Option<Number>,
    pub tool: Option<String>,
    pub no_tools: Option<bool>,
    pub stream: Option<bool>,
    #[serde(default)]
    pub header: BTreeMap<String, Text>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Last {
    User,
    Result,
    Assistant,
}

/// A condition on a text. A bare string means `contains`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextTable {
    pub is: Option<String>,
    pub contains: Option<String>,
    pub lacks: Option<String>,
    #[serde(default, deserialize_with = "pattern")]
    pub matches: Option<Regex>,
}

#[derive(Clone, Debug)]
pub struct Text(pub TextTable);

/// A condition on a count. A bare number means exactly that.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NumberTable {
    #[serde(default)]
    pub at_least: u64,
    #[serde(default = "no_limit")]
    pub at_most: u64,
}

#[derive(Clone, Debug)]
pub struct Number(pub NumberTable);

impl When {
    pub fn holds(&self, request: &Conversation) -> bool {
        let on = |text: &Option<Text>, of: &str| text.as_ref().is_none_or(|text| text.holds(of));
        let of_tool = |tool: &str| self.result_of.as_ref().is_none_or(|wanted| wanted == tool);
        let of_call = |id: &str| self.result_of_call.as_ref().is_none_or(|wanted| wanted == id);
        let asks_results = self.result_of.is_some() || self.result_of_call.is_some() || self.result.is_some();
        let mut at_end = request.last_results();
        self.wire.is_none_or(|wire| wire == request.wire)
            && on(&self.model, &request.model)
            && on(&self.system, &request.system)
            && on(&self.prompt, request.prompt())
            && on(&self.last_user, request.last_user())
            && self.last.is_none_or(|last| last.holds(request))
            && (!asks_results || at_end.any(|(id, tool, text)| of_tool(tool) && of_call(id) && on(&self.result, text)))
            && self.results.iter().all(|(tool, count)| count.holds(request.results_of(tool).count() as u64))
            && self.step.as_ref().is_none_or(|step| step.holds(request.step()))
            && self.tool.as_ref().is_none_or(|tool| request.tools.contains(tool))
            && self.no_tools.is_none_or(|none| none == request.tools.is_empty())
            && self.stream.is_none_or(|stream| stream == request.streams())
            && self.header.iter().all(|(name, text)| request.header(name).is_some_and(|value| text.holds(value)))
    }
}

impl Last {
    fn holds(self, request: &Conversation) -> bool {
        match request.turns.last() {
            Some(Turn::User(_)) => self == Last::User,
            Some(Turn::Result { .. }) => self == Last::Result,
            Some(Turn::Assistant { .. }) => self == Last::Assistant,
            None => false,
        }
    }
}

impl Text {
    fn holds(&self, text: &str) -> bool {
        let Text(test) = self;
        test.is.as_ref().is_none_or(|whole| whole == text)
            && test.contains.as_ref().is_none_or(|part| text.contains(part.as_str()))
            && test.lacks.as_ref().is_none_or(|part| !text.contains(part.as_str()))
            && test.matches.as_ref().is_none_or(|pattern| pattern.is_match(text))
    }
}

impl Number {
    fn holds(&self, count: u64) -> bool {
        (self.0.at_least..=self.0.at_most).contains(&count)
    }
}

// By hand and not `untagged`: an untagged enum loses the line and says only that nothing fitted.

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Text;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a text to contain, or a table of is, contains, lacks, matches")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text(TextTable { contains: Some(text.to_owned()), ..TextTable::default() }))
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Text, A::Error> {
                TextTable::deserialize(MapAccessDeserializer::new(map)).map(Text)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Number;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a number, or a table of at_least, at_most")
            }

            fn visit_i64<E: de::Error>(self, exact: i64) -> Result<Number, E> {
                let exact = u64::try_from(exact).map_err(|_| E::custom("a count is zero or more"))?;
                Ok(Number(NumberTable { at_least: exact, at_most: exact }))
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Number, A::Error> {
                NumberTable::deserialize(MapAccessDeserializer::new(map)).map(Number)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

fn pattern<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Regex>, D::Error> {
    let source = String::deserialize(deserializer)?;
    Regex::new(&source).map(Some).map_err(de::Error::custom)
}

fn no_limit() -> u64 {
    u64::MAX
}

#[cfg(test)]
mod tests {
    use super::super::conversation::tests::read;
    use super::*;

    fn check(when: &str, holds: bool) {
        let parsed: When = toml::from_str(when).expect(when);
        for wire in Wire::ALL {
            assert_eq!(parsed.holds(&read(wire)), holds, "{when} on {}", wire.name());
        }
    }

    #[test]
    fn conditions_look_at_what_the_request_contains() {
        for when in [
            "",
            "model = 'lab'",
            "model = { is = 'lab-1' }",
            "prompt = { matches = '^survey \\w+$', lacks = 'lib' }",
            "system = 'brief'",
            "last = 'result'",
            "result_of = 'Glob'",
            "result_of = 'Grep'\nresult = 'total'",
            "result_of_call = 'c2'",
            "result = { matches = 'total: \\d+' }",
            "results = { Glob = 1, Read = 0, Grep = { at_least = 1, at_most = 5 } }",
            "step = 2",
            "step = { at_most = 2 }",
            "tool = 'Grep'",
            "no_tools = false",
            "stream = true",
            "header = { X-Job = { is = 'j1' } }",
        ] {
            check(when, true);
        }
        for when in [
            "model = { is = 'lab' }",
            "prompt = 'lib'",
            "last = 'user'",
            "result_of = 'Read'",
            "result_of = 'Glob'\nresult = 'total'",
            "result_of_call = 'c3'",
            "results = { Glob = 2 }",
            "step = { at_least = 3 }",
            "tool = 'Bash'",
            "no_tools = true",
            "stream = false",
            "header = { x-none = '' }",
            "last = 'result'\nprompt = 'lib'",
        ] {
            check(when, false);
        }
    }

    #[test]
    fn a_slip_in_a_condition_is_named_with_its_line() {
        for (when, part) in [
            ("modle = 'x'", "unknown field `modle`"),
            ("model = { like = 'x' }", "unknown field `like`"),
            ("model = 3", "a text to contain, or a table"),
            ("\nprompt = { matches = '(' }", "line 2"),
            ("step = -1", "zero or more"),
            ("last = 'tool'", "unknown variant `tool`"),
        ] {
            let why = toml::from_str::<When>(when).expect_err(when).to_string();
            assert!(why.contains(part), "{when}: {why}");
        }
    }
}
