//! What the address of a request says: which wire, and for Gemini, whose requests do not say it themselves, the model and
//! the form of the answer.
//!
//! https://ai.google.dev/api/generate-content: the model and the method stand in the path, `alt=sse` asks for events, and a
//! stream without it is one JSON array that arrives in pieces.

#![deny(clippy::disallowed_methods)]

use super::conversation::Wire;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub wire: Wire,
    /// `None`: the body says it.
    pub model: Option<String>,
    /// `None`: the body says it.
    pub form: Option<Form>,
    /// A key in the query, as Gemini takes one.
    pub key: Option<String>,
}

/// How the answer comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One JSON body.
    Whole,
    /// Server-sent events.
    Events,
    /// The chunks of a stream as one JSON array.
    Array,
}

impl Place {
    pub fn of(path: &str, query: Option<&str>) -> Option<Place> {
        let in_body = |wire| Some(Place { wire, model: None, form: None, key: None });
        match path {
            "/chat/completions" | "/v1/chat/completions" => in_body(Wire::Openai),
            "/v1/messages" => in_body(Wire::Anthropic),
            _ => Place::gemini(path, query.unwrap_or_default()),
        }
    }

    fn gemini(path: &str, query: &str) -> Option<Place> {
        let asked = path.strip_prefix("/v1beta/models/").or_else(|| path.strip_prefix("/v1/models/"))?;
        let (model, method) = asked.rsplit_once(':')?;
        let value = |name: &str| {
            let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.filter(|(of, _)| *of == name).map(|(_, value)| value).next_back()
        };
        let form = match method {
            "generateContent" => Form::Whole,
            "streamGenerateContent" if value("alt") == Some("sse") => Form::Events,
            "streamGenerateContent" => Form::Array,
            _ => return None,
        };
        let plain = !model.is_empty() && !model.contains('/');
        plain.then(|| Place {
            wire: Wire::Gemini,
            model: Some(model.to_owned()),
            form: Some(form),
            key: value("key").map(str::to_owned),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_the_wire_and_for_gemini_model_form_and_key() {
        let body = |wire| Some((wire, None, None, None));
        let gemini = |form, key| Some((Wire::Gemini, Some("m-1"), Some(form), key));
        for (path, query, expected) in [
            ("/v1/chat/completions", "", body(Wire::Openai)),
            ("/chat/completions", "alt=sse", body(Wire::Openai)),
            ("/v1/messages", "", body(Wire::Anthropic)),
            ("/v1beta/models/m-1:generateContent", "", gemini(Form::Whole, None)),
            ("/v1/models/m-1:generateContent", "key=k", gemini(Form::Whole, Some("k"))),
            ("/v1beta/models/m-1:streamGenerateContent", "alt=sse", gemini(Form::Events, None)),
            ("/v1beta/models/m-1:streamGenerateContent", "key=k&alt=sse", gemini(Form::Events, Some("k"))),
            ("/v1beta/models/m-1:streamGenerateContent", "alt=json", gemini(Form::Array, None)),
            ("/v1beta/models/m-1:countTokens", "", None),
            ("/v1beta/models/:generateContent", "", None),
            ("/v1beta/models/a/b:generateContent", "", None),
            ("/v1beta/models/m-1", "", None),
            ("/v1/v1/messages", "", None),
        ] {
            let found = Place::of(path, Some(query));
            let found = found.as_ref().map(|at| (at.wire, at.model.as_deref(), at.form, at.key.as_deref()));
            assert_eq!(found, expected, "{path}?{query}");
        }
    }
}
