//! `ukai doctor`: what is in force here, where each value comes from, what is missing. Never a key.

mod sandbox;

use std::io;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::process::PidfdFlags;
use serde_json::{Value, json};
use ukai_notifier::{DISCORD, discord_is_dead};
use ukai_protocol::command::{command, quoted};
use ukai_protocol::control::{Request, Response, ServerStatus, SinkRow, SinkState};
use ukai_protocol::job::Limits;
use ukai_protocol::lease::Timeouts;

use super::client::{Client, unexpected};
use super::context::{Context, WEBHOOK_VARIABLE, webhook, worker_program};
use super::failure::{Failure, USAGE};
use super::policy::{asked, faults};
use super::sinks::{self, By, Of};
use super::{Output, print, table};
use crate::config::{Config, KeyFrom, Provider, duration, key, preset, provider};
use crate::policy_file::{self, Traced};

/// One line of the report.
struct Fact {
    topic: &'static str,
    key: String,
    value: String,
    origin: String,
    sound: bool,
}

pub(crate) async fn doctor(context: &Context) -> Result<u8, Failure> {
    let mut facts = configuration(context);
    facts.extend(providers(&context.loaded.config));
    facts.extend(alerts(context).await);
    let traced = policy_file::load(None, &mut Vec::new());
    let (policy, loads) = policy(context, &traced).await;
    facts.extend(policy);
    facts.extend(sandbox::facts(context, &traced).await);
    facts.extend(places(context));
    facts.extend(server(context).await);
    facts.extend(kernel());
    match context.output {
        Output::Text => print::out(&text(&facts)),
        Output::Json | Output::StreamJson => print::out(&format!("{}\n", as_json(&facts))),
    };
    // As a configuration that does not load: nothing can be done with it.
    Ok(if loads { 0 } else { USAGE })
}

fn fact(topic: &'static str, key: impl Into<String>, value: impl Into<String>, origin: impl Into<String>) -> Fact {
    Fact { topic, key: key.into(), value: value.into(), origin: origin.into(), sound: true }
}

fn bad(topic: &'static str, key: impl Into<String>, value: impl Into<String>, origin: impl Into<String>) -> Fact {
    Fact { sound: false, ..fact(topic, key, value, origin) }
}

fn configuration(context: &Context) -> Vec<Fact> {
    const TOPIC: &str = "configuration";
    let config = &context.loaded.config;
    let file = config.file.as_ref().map_or_else(|| "none".to_owned(), |file| file.display().to_string());
    let origin = |key: &str| if config.set.contains(key) { file.clone() } else { "default".to_owned() };
    let mut limits = Limits::default();
    config.limits.apply(&mut limits);
    let supervision = config.supervision;
    let cost = limits.max_cost_usd.map_or_else(|| "none".to_owned(), |usd| usd.to_string());
    let values = [
        ("max_workers", config.max_workers.to_string()),
        ("when_all_open", if config.park { "park" } else { "abort" }.to_owned()),
        ("limits.steps", limits.steps.to_string()),
        ("limits.tool_calls", limits.tool_calls.to_string()),
        ("limits.tokens", limits.tokens.to_string()),
        ("limits.run_time", duration::show(limits.run_time_ms)),
        ("limits.max_wall", duration::show(limits.max_wall_ms)),
        ("limits.max_cost_usd", cost),
        ("supervision.heartbeat", duration::show(supervision.heartbeat_ms)),
        ("supervision.hang", duration::show(supervision.hang_ms)),
        ("supervision.term_grace", duration::show(supervision.term_grace_ms)),
        ("supervision.orphan_grace", duration::show(supervision.orphan_grace_ms)),
        (
            "tools.disable",
            if config.disabled_tools.is_empty() { "none".to_owned() } else { config.disabled_tools.join(", ") },
        ),
    ];
    let mut facts = vec![fact(TOPIC, "file", file.clone(), context.loaded.origin.as_str())];
    facts.extend(values.into_iter().map(|(key, value)| fact(TOPIC, key, value, origin(key))));
    facts.extend(config.warnings.iter().map(|warning| bad(TOPIC, "warning", warning, "")));
    facts
}

fn providers(config: &Config) -> Vec<Fact> {
    let file = config.file.as_ref().map_or_else(String::new, |file| file.display().to_string());
    if !config.providers.is_empty() {
        return config.providers.iter().flat_map(|provider| described(provider, &file)).collect();
    }
    let presets: Vec<Provider> = preset::PRESETS.iter().filter_map(provider::from_preset).collect();
    let ready: Vec<_> =
        presets.iter().filter(|preset| !matches!(key::read(&preset.key), Err(key::KeyError::Absent(_)))).collect();
    if ready.is_empty() {
        let looked_for: Vec<_> = preset::PRESETS.iter().filter_map(|preset| preset.key_variable).collect();
        let why = format!("none; none of these is set: {}", looked_for.join(", "));
        return vec![bad("provider", "any", why, "presets")];
    }
    ready.into_iter().flat_map(|provider| described(provider, "preset")).collect()
}

fn described(provider: &Provider, origin: &str) -> Vec<Fact> {
    const TOPIC: &str = "provider";
    let of = |what: &str| format!("{}.{what}", provider.id);
    let wire = format!("{:?}", provider.wire).to_lowercase();
    let sizes = format!("{} tokens, replies up to {}", provider.context_window, provider.max_output);
    let key = match key::read(&provider.key) {
        Ok(Some((_, found))) => fact(TOPIC, of("key"), "present", found.to_string()),
        Ok(None) => fact(TOPIC, of("key"), "none configured", origin),
        Err(error @ key::KeyError::Absent(_)) if provider.loopback => {
            fact(TOPIC, of("key"), "absent", error.to_string())
        }
        Err(error) => bad(TOPIC, of("key"), error.to_string(), looked(&provider.key)),
    };
    vec![
        fact(TOPIC, of("address"), format!("{} ({wire})", provider.base_url), origin),
        fact(TOPIC, of("model"), &provider.model, origin),
        fact(TOPIC, of("window"), sizes, origin),
        fact(TOPIC, of("bounds"), bounds(provider), origin),
        key,
    ]
}

/// How much of it may be asked at a time, and how long it is waited for.
fn bounds(provider: &Provider) -> String {
    let seconds = |ms: u64| duration::show(ms);
    let Timeouts { connect_ms, first_content_ms, idle_ms } = provider.timeouts;
    let (connect, first, idle) = (seconds(connect_ms), seconds(first_content_ms), seconds(idle_ms));
    let rate = |what: &str, rate: Option<u64>| rate.map(|rate| format!("{rate} {what}"));
    let account = (provider.account != provider.id).then(|| format!("account {}", provider.account));
    let bounds = [
        account,
        rate("at a time", provider.max_concurrency.map(u64::from)),
        rate("requests/min", provider.requests_per_minute.map(u64::from)),
        rate("at once", provider.burst.map(u64::from)),
        rate("tokens/min", provider.tokens_per_minute),
        Some(format!("connects in {connect}, begins in {first}, pauses for {idle} at most")),
    ];
    bounds.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn looked(from: &KeyFrom) -> String {
    match from {
        KeyFrom::Nowhere => String::new(),
        KeyFrom::Variable(name) => format!("variable {name}"),
        KeyFrom::File(path) => format!("file {}", path.display()),
    }
}

/// As the server says that tells, or as this terminal is set up where none runs.
async fn alerts(context: &Context) -> Vec<Fact> {
    const TOPIC: &str = "alerts";
    let rows = match Client::connect(context).await {
        Ok(Some(client)) => sinks::asked(client, Of::Standing).await,
        // A server that cannot be talked to is named by its own topic.
        Ok(None) | Err(_) => return alerts_here(context),
    };
    match rows {
        Ok(rows) => rows.into_iter().map(|row| sink(sinks::known(row, By::Server))).collect(),
        Err(failure) => vec![bad(TOPIC, "sinks", failure.text, "the server")],
    }
}

fn sink(row: SinkRow) -> Fact {
    // Whoever set it here wants to be told.
    let is_missed = row.sink == DISCORD && webhook().is_some();
    let sound = match row.state {
        SinkState::On => true,
        SinkState::Off(_) => !is_missed,
        SinkState::Failed(_) | SinkState::Dead(_) => false,
    };
    Fact { sound, ..fact("alerts", &row.sink, sinks::said(&row, By::Server, Of::Standing), "the server's environment") }
}

fn alerts_here(context: &Context) -> Vec<Fact> {
    const TOPIC: &str = "alerts";
    let config = &context.loaded.config;
    let file = config.file.as_ref().map_or_else(|| "none".to_owned(), |file| file.display().to_string());
    let (desktop, origin) = match config.desktop {
        Some(desktop) => (desktop, file),
        None => (true, "default".to_owned()),
    };
    let desktop = if desktop { "yes, where there is a session bus" } else { "no" };
    let discord = match webhook() {
        None => fact(TOPIC, "discord", "no: the variable is not set", WEBHOOK_VARIABLE),
        Some(url) => match discord_is_dead(&context.state.cursors(), &url) {
            Some(why) => {
                let tries = quoted(&["notify", "test"]);
                let why = format!("it is dead: {why}; {tries} tries it again; another address takes its place");
                bad(TOPIC, "discord", why, WEBHOOK_VARIABLE)
            }
            None => fact(TOPIC, "discord", format!("yes (see: {})", command(&["notify", "test"])), WEBHOOK_VARIABLE),
        },
    };
    vec![fact(TOPIC, "desktop", desktop, origin), discord]
}

/// And whether it loads: a job in the current folder would meet the same.
async fn policy(context: &Context, traced: &Traced) -> (Vec<Fact>, bool) {
    const TOPIC: &str = "policy";
    let origin = origin_of(traced);
    let policy = &traced.policy;
    let faults = match &policy.broken {
        Some(why) => vec![why.clone()],
        None => match asked(context, &context.current_folder, policy, Vec::new()).await {
            Ok(answer) => faults(traced, &answer),
            Err(failure) => return (vec![bad(TOPIC, "rules", failure.text, origin)], true),
        },
    };
    let loads = faults.is_empty();
    let broken =
        faults.into_iter().map(|fault| bad(TOPIC, "rules", format!("every tool call is denied: {fault}"), &*origin));
    let mut facts: Vec<Fact> = broken.collect();
    if loads {
        let value = format!("{} allow, {} ask, {} deny", policy.allow.len(), policy.ask.len(), policy.deny.len());
        facts.push(fact(TOPIC, "rules", value, origin));
    }
    (facts, loads)
}

fn origin_of(traced: &Traced) -> String {
    traced.file.as_ref().map_or_else(|| "shipped".to_owned(), |file| file.display().to_string())
}

fn places(context: &Context) -> Vec<Fact> {
    const TOPIC: &str = "place";
    let root = context.state.root();
    let state = match (root.exists(), writable(root)) {
        (false, _) => fact(TOPIC, "state directory", root.display().to_string(), "made at the first run"),
        (true, Ok(())) => fact(TOPIC, "state directory", root.display().to_string(), ""),
        (true, Err(why)) => bad(TOPIC, "state directory", format!("{}: {why}", root.display()), ""),
    };
    let socket = match context.socket() {
        Ok(Some(path)) => fact(TOPIC, "socket", path.display().to_string(), ""),
        Ok(None) => fact(TOPIC, "socket", "none yet", ""),
        Err(failure) => bad(TOPIC, "socket", failure.text, ""),
    };
    let worker = match worker_program() {
        Ok(path) => fact(TOPIC, "worker program", path.display().to_string(), ""),
        Err(failure) => bad(TOPIC, "worker program", failure.text, ""),
    };
    vec![state, socket, worker]
}

fn writable(folder: &Path) -> io::Result<()> {
    Ok(rustix::fs::access(folder, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK)?)
}

async fn server(context: &Context) -> Vec<Fact> {
    const TOPIC: &str = "server";
    match status(context).await {
        Ok(Some(status)) => vec![
            fact(TOPIC, "pid", status.pid.to_string(), ""),
            fact(TOPIC, "version", status.version, ""),
            fact(
                TOPIC,
                "jobs",
                format!("{} running, {} queued, at most {} workers", status.running, status.queued, status.max_workers),
                "",
            ),
        ],
        Ok(None) => {
            let (run, serve) = (quoted(&["run"]), quoted(&["serve"]));
            vec![fact(TOPIC, "state", format!("none listens; {run} hosts its own, {serve} starts one"), "")]
        }
        Err(failure) => vec![bad(TOPIC, "state", failure.text, "")],
    }
}

async fn status(context: &Context) -> Result<Option<ServerStatus>, Failure> {
    let Some(client) = Client::connect(context).await? else { return Ok(None) };
    match client.ask(&Request::Status).await? {
        Response::Status(status) => Ok(Some(*status)),
        other => Err(unexpected(&other)),
    }
}

fn kernel() -> Vec<Fact> {
    const TOPIC: &str = "kernel";
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_else(|error| error.to_string());
    let openat2 = rustix::fs::openat2(CWD, ".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::BENEATH);
    let pidfd = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty());
    let can = |key: &str, result: Result<(), rustix::io::Errno>, what_for: &str| match result {
        Ok(()) => fact(TOPIC, key, "yes", what_for),
        Err(errno) => bad(TOPIC, key, format!("no: {errno}"), what_for),
    };
    vec![
        fact(TOPIC, "release", release.trim(), "/proc/sys/kernel/osrelease"),
        can("openat2", openat2.map(drop), "keeps tools beneath their roots"),
        can("pidfd", pidfd.map(drop), "tells processes apart"),
    ]
}

/// What may be long stands last, so that it widens no line but its own.
fn text(facts: &[Fact]) -> String {
    let rows: Vec<_> = facts
        .iter()
        .map(|fact| {
            let mark = if fact.sound { "" } else { "!" };
            let value = print::clean(&fact.value);
            let last = if fact.origin.is_empty() { value } else { format!("{value}  ({})", fact.origin) };
            [mark.to_owned(), fact.topic.to_owned(), fact.key.clone(), last]
        })
        .collect();
    table::columns(&rows)
}

fn as_json(facts: &[Fact]) -> Value {
    let all = facts.iter().map(|fact| {
        json!({ "topic": fact.topic, "key": fact.key, "value": fact.value, "origin": fact.origin, "ok": fact.sound })
    });
    json!({ "type": "doctor", "version": env!("CARGO_PKG_VERSION"), "facts": all.collect::<Vec<_>>() })
}
