//! One `[[provider]]`: a preset's name fills in the rest, and what cannot be asked is refused with its place.

#![deny(clippy::disallowed_methods)]

use std::path::{Path, PathBuf};

use toml::Spanned;
use ukai_protocol::lease::{Prices, Timeouts, Wire};

use super::fault::{Fault, Source, nearest};
use super::file::ProviderTable;
use super::limits::Usd;
use super::preset::{self, Preset};
use super::{CONTEXT_WINDOW_UNKNOWN, KeyFrom, MAX_OUTPUT_UNKNOWN, Provider, url};

/// Ids stand in events, file names of probes and tables.
const ID_CHARS_MAX: usize = 48;

/// `before`: the providers above it in the file.
pub(super) fn resolve(
    source: Source<'_>,
    table: Spanned<ProviderTable>,
    home: Option<&Path>,
    before: &[Provider],
    warnings: &mut Vec<String>,
) -> Result<Provider, Fault> {
    let at = table.span().start;
    let table = table.into_inner();
    let id = id(source, at, table.id.as_ref(), before)?;
    let preset = preset::find(&id);
    let missing = |key: &str, next: String| source.fault(at, key, format!("provider `{id}` needs it"), next);

    let wire = wire(source, at, &id, table.wire.as_ref(), preset)?;
    let base_url = match (&table.base_url, preset) {
        (Some(url), _) => url.get_ref().as_str(),
        (None, Some(preset)) => preset.base_url,
        (None, None) => return Err(missing("base_url", no_preset_hint(&id))),
    };
    let at_url = table.base_url.as_ref().map_or(at, |url| url.span().start);
    let checked = url::check(base_url).map_err(|why| {
        // Only what cannot hold a secret is shown: the scheme.
        let scheme = base_url.split_once("://").map_or_else(String::new, |(scheme, _)| format!("{scheme}://…: "));
        source.fault(at_url, "base_url", format!("{scheme}{why}"), "write for instance \"https://host/v1\"")
    })?;
    let key = key(source, &table, preset, home)?;
    if key != KeyFrom::Nowhere && !checked.https && !checked.loopback {
        return Err(source.fault(
            at_url,
            "base_url",
            format!("provider `{id}` has a key, and plain http would show it to everyone on the way"),
            "use https, or take the key out",
        ));
    }
    let model = match (&table.model, preset.and_then(|preset| preset.model)) {
        (Some(model), _) if model.get_ref().trim().is_empty() => {
            return Err(source.fault(model.span().start, "model", "it is empty", "name the model to ask"));
        }
        (Some(model), _) => model.get_ref().clone(),
        (None, Some(model)) => model.to_owned(),
        (None, None) => return Err(missing("model", "name the model to ask".to_owned())),
    };
    let sizes = sizes(source, &id, &table, preset, warnings)?;
    if let Some(zero) = table.max_concurrency.as_ref().filter(|value| *value.get_ref() == 0) {
        return Err(source.fault(zero.span().start, "max_concurrency", "with 0 nothing could ever be asked", "use 1"));
    }
    check_rates(source, &table)?;
    let account = table.account.map_or_else(|| id.clone(), Spanned::into_inner);
    let default = Timeouts::default();
    Ok(Provider {
        account,
        wire,
        base_url: base_url.trim_end_matches('/').to_owned(),
        loopback: checked.loopback,
        model,
        key,
        context_window: sizes.context_window,
        max_output: sizes.max_output,
        max_output_cap: sizes.max_output_cap,
        prices: prices(table.price_in, table.price_out, table.price_cached),
        timeouts: Timeouts {
            connect_ms: table.connect_timeout.map_or(default.connect_ms, |time| time.0),
            first_content_ms: table.first_content_timeout.map_or(default.first_content_ms, |time| time.0),
            idle_ms: table.idle_timeout.map_or(default.idle_ms, |time| time.0),
        },
        max_concurrency: table.max_concurrency.map(Spanned::into_inner),
        requests_per_minute: table.requests_per_minute.map(Spanned::into_inner),
        burst: table.burst.map(Spanned::into_inner),
        tokens_per_minute: table.tokens_per_minute.map(Spanned::into_inner),
        id,
    })
}

fn check_rates(source: Source<'_>, table: &ProviderTable) -> Result<(), Fault> {
    let zero = |at: usize, key: &str| {
        source.fault(at, key, "with 0 nothing could ever be asked", "use 1 or more, or take it out for no bound")
    };
    for (key, rate) in [("requests_per_minute", &table.requests_per_minute), ("burst", &table.burst)] {
        if let Some(rate) = rate.as_ref().filter(|rate| *rate.get_ref() == 0) {
            return Err(zero(rate.span().start, key));
        }
    }
    if let Some(rate) = table.tokens_per_minute.as_ref().filter(|rate| *rate.get_ref() == 0) {
        return Err(zero(rate.span().start, "tokens_per_minute"));
    }
    match &table.burst {
        Some(burst) if table.requests_per_minute.is_none() => Err(source.fault(
            burst.span().start,
            "burst",
            "there is no requests_per_minute that it could be a part of",
            "set that too",
        )),
        _ => Ok(()),
    }
}

/// A preset as it is taken without a `[[provider]]`. None: its model is missing.
#[must_use]
pub fn from_preset(preset: &Preset) -> Option<Provider> {
    Some(Provider {
        id: preset.id.to_owned(),
        account: preset.id.to_owned(),
        wire: preset.wire,
        base_url: preset.base_url.to_owned(),
        loopback: url::check(preset.base_url).is_ok_and(|url| url.loopback),
        model: preset.model?.to_owned(),
        key: preset.key_variable.map_or(KeyFrom::Nowhere, |name| KeyFrom::Variable(name.to_owned())),
        context_window: preset.context_window,
        max_output: preset.max_output,
        max_output_cap: preset.max_output_cap,
        prices: None,
        timeouts: Timeouts::default(),
        max_concurrency: None,
        requests_per_minute: None,
        burst: None,
        tokens_per_minute: None,
    })
}

fn id(source: Source<'_>, at: usize, id: Option<&Spanned<String>>, before: &[Provider]) -> Result<String, Fault> {
    let Some(id) = id else {
        return Err(source.fault(at, "id", "a [[provider]] needs it", "give it a name, or that of a preset"));
    };
    let at = id.span().start;
    let id = id.get_ref();
    let shaped = (1..=ID_CHARS_MAX).contains(&id.len())
        && id.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    if !shaped {
        let why = format!("it must be 1 to {ID_CHARS_MAX} of a-z, A-Z, 0-9, `-`, `_` and `.`");
        return Err(source.fault(at, "id", why, "choose another"));
    }
    if before.iter().any(|provider| provider.id == *id) {
        let why = format!("the id `{id}` stands twice");
        return Err(source.fault(at, "id", why, "give each its own; `account` lets two share one account"));
    }
    Ok(id.clone())
}

fn wire(
    source: Source<'_>,
    at: usize,
    id: &str,
    named: Option<&Spanned<String>>,
    preset: Option<&Preset>,
) -> Result<Wire, Fault> {
    match (named, preset) {
        (Some(wire), _) => match wire.get_ref().as_str() {
            "openai" => Ok(Wire::Openai),
            "anthropic" => Ok(Wire::Anthropic),
            "gemini" => Ok(Wire::Gemini),
            other => {
                let next = nearest(other, ["openai", "anthropic", "gemini"].into_iter()).map_or_else(
                    || "write openai, anthropic or gemini".to_owned(),
                    |near| format!("did you mean `{near}`?"),
                );
                Err(source.fault(wire.span().start, "wire", format!("there is no wire `{other}`"), next))
            }
        },
        (None, Some(preset)) => Ok(preset.wire),
        (None, None) => Err(source.fault(at, "wire", format!("provider `{id}` needs it"), no_preset_hint(id))),
    }
}

fn no_preset_hint(id: &str) -> String {
    let presets = preset::PRESETS.iter().map(|preset| preset.id);
    match nearest(id, presets.clone()) {
        Some(near) => format!("no preset is called `{id}`; did you mean `{near}`?"),
        None => format!("no preset is called `{id}` (presets: {})", presets.collect::<Vec<_>>().join(", ")),
    }
}

fn key(
    source: Source<'_>,
    table: &ProviderTable,
    preset: Option<&Preset>,
    home: Option<&Path>,
) -> Result<KeyFrom, Fault> {
    match (&table.api_key_env, &table.api_key_file) {
        (Some(_), Some(file)) => Err(source.fault(
            file.span().start,
            "api_key_file",
            "there is api_key_env already",
            "keep the one that holds the key",
        )),
        (Some(name), None) if !is_variable_name(name.get_ref()) => Err(source.fault(
            name.span().start,
            "api_key_env",
            "it must be the name of a variable, and what stands there (not shown) is none",
            "write for instance \"LAB_KEY\"; a key itself never stands in this file",
        )),
        (Some(name), None) => Ok(KeyFrom::Variable(name.get_ref().clone())),
        (None, Some(file)) => {
            let path = PathBuf::from(file.get_ref());
            let path = match (path.strip_prefix("~"), home) {
                (Ok(below), Some(home)) => home.join(below),
                _ => source.file.parent().unwrap_or(Path::new("/")).join(path),
            };
            Ok(KeyFrom::File(path))
        }
        // A preset asked at another address does not send that provider's key there unless told to.
        (None, None) if table.base_url.is_some() => Ok(KeyFrom::Nowhere),
        (None, None) => Ok(preset
            .and_then(|preset| preset.key_variable)
            .map_or(KeyFrom::Nowhere, |name| KeyFrom::Variable(name.to_owned()))),
    }
}

fn is_variable_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

struct Sizes {
    context_window: u64,
    max_output: u64,
    max_output_cap: u64,
}

fn sizes(
    source: Source<'_>,
    id: &str,
    table: &ProviderTable,
    preset: Option<&Preset>,
    warnings: &mut Vec<String>,
) -> Result<Sizes, Fault> {
    let get = |value: &Option<Spanned<u64>>| value.as_ref().map(|value| *value.get_ref());
    let window = get(&table.context_window).or(preset.map(|preset| preset.context_window));
    if window.is_none() {
        warnings.push(format!(
            "{}: provider `{id}` has no context_window: taken as {CONTEXT_WINDOW_UNKNOWN}, with max_output {}",
            source.file.display(),
            get(&table.max_output).unwrap_or(MAX_OUTPUT_UNKNOWN)
        ));
    }
    let context_window = window.unwrap_or(CONTEXT_WINDOW_UNKNOWN);
    let from_preset = preset.map_or(MAX_OUTPUT_UNKNOWN, |preset| preset.max_output);
    // A small window leaves half of itself to the input, unless someone has said how much to ask for.
    let max_output = get(&table.max_output).unwrap_or(from_preset.min((context_window / 2).max(1)));
    let cap = preset.map_or(max_output, |preset| preset.max_output_cap).max(max_output);
    let max_output_cap = get(&table.max_output_cap).unwrap_or(cap.min(context_window.max(max_output)));
    let place = |value: &Option<Spanned<u64>>| value.as_ref().map_or(0, |value| value.span().start);
    if context_window == 0 {
        return Err(source.fault(place(&table.context_window), "context_window", "it is 0", "give its tokens"));
    }
    if max_output == 0 || max_output >= context_window {
        let at = table.max_output.as_ref().or(table.context_window.as_ref()).map_or(0, |value| value.span().start);
        let why = format!("it must be from 1 to less than the context_window ({context_window})");
        return Err(source.fault(at, "max_output", why, "lower it"));
    }
    if max_output_cap < max_output {
        let why = format!("it is below max_output ({max_output})");
        return Err(source.fault(place(&table.max_output_cap), "max_output_cap", why, "raise it"));
    }
    Ok(Sizes { context_window, max_output, max_output_cap })
}

/// Cached input costs as much as other input where nothing else is said.
fn prices(input: Option<Usd>, output: Option<Usd>, cached: Option<Usd>) -> Option<Prices> {
    if input.is_none() && output.is_none() && cached.is_none() {
        return None;
    }
    let usd = |amount: Option<Usd>| amount.map(|usd| usd.0);
    let input = usd(input).unwrap_or_default();
    Some(Prices { input, output: usd(output).unwrap_or_default(), cached: usd(cached).unwrap_or(input) })
}
