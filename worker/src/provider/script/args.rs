//! The arguments of a scripted call: JSON whose strings, at any depth, are templates.

#![deny(clippy::disallowed_methods)]

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

use super::template::{Names, Template, Unfilled};

/// In the order of the file.
#[derive(Clone, Debug, Default)]
pub struct ArgTable(pub Vec<(String, Arg)>);

#[derive(Clone, Debug)]
pub enum Arg {
    Plain(Value),
    Text(Template),
    List(Vec<Arg>),
    Table(ArgTable),
}

impl ArgTable {
    pub fn value(&self, names: &dyn Names) -> Result<Value, Unfilled> {
        let pairs = self.0.iter().map(|(key, arg)| Ok((key.clone(), arg.value(names)?)));
        pairs.collect::<Result<serde_json::Map<_, _>, _>>().map(Value::Object)
    }
}

impl Arg {
    fn value(&self, names: &dyn Names) -> Result<Value, Unfilled> {
        match self {
            Arg::Plain(value) => Ok(value.clone()),
            Arg::Text(template) => template.value(names),
            Arg::List(items) => items.iter().map(|item| item.value(names)).collect::<Result<_, _>>().map(Value::Array),
            Arg::Table(table) => table.value(names),
        }
    }
}

impl<'de> Deserialize<'de> for ArgTable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = ArgTable;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a table of arguments")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<ArgTable, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(ArgTable(pairs))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

impl<'de> Deserialize<'de> for Arg {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Arg;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a text, number, boolean, list or table")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Arg, E> {
                Template::try_from(text.to_owned()).map(Arg::Text).map_err(E::custom)
            }

            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Arg, E> {
                Ok(Arg::Plain(value.into()))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Arg, E> {
                Ok(Arg::Plain(value.into()))
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Arg, E> {
                Ok(Arg::Plain(value.into()))
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, seq: A) -> Result<Arg, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(seq)).map(Arg::List)
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Arg, A::Error> {
                ArgTable::deserialize(MapAccessDeserializer::new(map)).map(Arg::Table)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}
