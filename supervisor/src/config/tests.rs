//! Good and bad configurations, and the words in which the bad ones are refused.

use super::*;

fn parsed(text: &str) -> Result<Config, String> {
    Config::parse(text, Path::new("/c/ukai.toml"), Some(Path::new("/home/me"))).map_err(|fault| fault.to_string())
}

#[test]
fn the_file_of_the_contract_loads() {
    let text = r#"
max_workers = 8
when_all_open = "abort"
[[provider]]
id = "anthropic"
model = "claude-sonnet-4-6"
max_concurrency = 4
account = "x"
[[provider]]
id = "lab"
wire = "openai"
base_url = "http://127.0.0.1:9999/v1/"
api_key_env = "LAB_KEY"
model = "lab-1"
context_window = 32000
max_output = 4096
price_in = 1
price_out = 2.5
connect_timeout = "5s"
[limits]
steps = 3
run_time = "10m"
[tools]
disable = ["Grep"]
[supervision]
heartbeat = "500ms"
[notify]
desktop = false
"#;
    let config = parsed(text).expect("it loads");
    let [anthropic, lab] = &config.providers[..] else { panic!("two providers") };
    assert_eq!((anthropic.wire, &*anthropic.account), (Wire::Anthropic, "x"));
    assert_eq!(anthropic.key, KeyFrom::Variable("ANTHROPIC_API_KEY".into()));
    assert_eq!(anthropic.context_window, 1_000_000);
    assert_eq!(lab.base_url, "http://127.0.0.1:9999/v1");
    assert!(lab.loopback);
    assert_eq!(lab.prices, Some(Prices { input: 1.0, output: 2.5, cached: 1.0 }));
    assert_eq!(lab.timeouts, Timeouts { connect_ms: 5_000, ..Timeouts::default() });
    assert_eq!((lab.max_output, lab.max_output_cap), (4_096, 4_096));
    assert_eq!(config.limits.steps, Some(3));
    assert_eq!(config.disabled_tools, ["Grep"]);
    assert_eq!(config.supervision.heartbeat_ms, 500);
    assert_eq!(config.desktop, Some(false));
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    assert_eq!(config.provider_ids(), ["anthropic", "lab"]);
}

#[test]
fn gemini_is_a_wire_like_the_others() {
    let own = "[[provider]]\nid = \"g\"\nwire = \"gemini\"\nbase_url = \"http://127.0.0.1:1\"\nmodel = \"m\"\n";
    let config = parsed(&format!("[[provider]]\nid = \"gemini\"\n{own}")).expect("it loads");
    let [preset, own] = &config.providers[..] else { panic!("two providers") };
    assert_eq!((preset.wire, own.wire), (Wire::Gemini, Wire::Gemini));
    assert_eq!(preset.base_url, "https://generativelanguage.googleapis.com");
    assert_eq!(preset.key, KeyFrom::Variable("GEMINI_API_KEY".into()));
}

#[test]
fn what_is_not_there_has_its_default() {
    let config = parsed("").expect("an empty file is one");
    let expected = Config { file: Some("/c/ukai.toml".into()), ..Config::default() };
    assert_eq!(config, expected);
    assert_eq!(config.provider_ids().len(), 11);
}

#[test]
fn each_mistake_names_its_place_and_what_to_do() {
    let lab = |rest: &str| format!("[[provider]]\nid = \"lab\"\nwire = \"openai\"\n{rest}\n");
    let url = "base_url = \"http://127.0.0.1:1/v1\"\n";
    let cases: Vec<(String, &[&str])> = vec![
        (
            "max_wokers = 3\n".into(),
            &["/c/ukai.toml, line 1", "`max_wokers`", "no such key", "did you mean `max_workers`"],
        ),
        ("[limits]\nstpes = 3\n".into(), &["line 2", "`stpes`", "did you mean `steps`"]),
        ("\n[zzz]\n".into(), &["line 2", "`zzz`", "known here: max_workers"]),
        ("max_workers = \"many\"\n".into(), &["line 1", "`max_workers`", "invalid type"]),
        ("max_workers = -1\n".into(), &["line 1", "`max_workers`"]),
        ("max_workers = 0\n".into(), &["line 1", "`max_workers`", "from 1 to"]),
        ("max_workers = \n".into(), &["line 1"]),
        ("[limits]\nrun_time = \"soon\"\n".into(), &["line 2", "`run_time`", "no duration"]),
        ("[limits]\nrun_time = 10\n".into(), &["line 2", "`run_time`", "a duration like"]),
        ("[limits]\nmax_cost_usd = -1\n".into(), &["line 2", "`max_cost_usd`", "not below 0"]),
        (
            lab(&format!("{url}model = \"m\"\nrequests_per_minute = 0")),
            &["requests_per_minute", "nothing could ever be asked"],
        ),
        (lab(&format!("{url}model = \"m\"\nburst = 0")), &["burst", "nothing could ever be asked"]),
        (
            lab(&format!("{url}model = \"m\"\ntokens_per_minute = 0")),
            &["tokens_per_minute", "nothing could ever be asked"],
        ),
        (lab(&format!("{url}model = \"m\"\nburst = 5")), &["burst", "no requests_per_minute"]),
        ("when_all_open = \"wait\"\n".into(), &["neither \"abort\" nor \"park\""]),
        ("[[hooks.PreTolUse]]\nhooks = []\n".into(), &["line 1", "`PreTolUse`", "did you mean `PreToolUse`"]),
        ("[supervision]\nheartbeat = \"0s\"\n".into(), &["`heartbeat`"]),
        ("[supervision]\nhang = \"1s\"\n".into(), &["`hang`", "longer than `heartbeat`"]),
        ("[[provider]]\nmodel = \"x\"\n".into(), &["line 1", "`id`", "needs it"]),
        ("[[provider]]\nid = \"a b\"\n".into(), &["line 2", "`id`"]),
        ("[[provider]]\nid = \"lab\"\n".into(), &["`wire`", "needs it", "presets: openai"]),
        ("[[provider]]\nid = \"antropic\"\n".into(), &["`wire`", "did you mean `anthropic`"]),
        ("[[provider]]\nid = \"x\"\nwire = \"gemini\"\n".into(), &["`base_url`", "`x` needs it"]),
        (
            "[[provider]]\nid = \"x\"\nwire = \"gemni\"\n".into(),
            &["line 3", "no wire `gemni`", "did you mean `gemini`"],
        ),
        (
            "[[provider]]\nid = \"x\"\nwire = \"opnai\"\n".into(),
            &["line 3", "no wire `opnai`", "did you mean `openai`"],
        ),
        ("[[provider]]\nid = \"openai\"\n[[provider]]\nid = \"openai\"\n".into(), &["line 4", "`openai` stands twice"]),
        (lab(""), &["`base_url`", "needs it"]),
        (lab(url), &["`model`", "`lab` needs it"]),
        (lab("base_url = \"lab.local\"\nmodel = \"m\""), &["line 4", "`base_url`", "no http://"]),
        (
            lab("base_url = \"http://lab.local\"\nmodel = \"m\"\napi_key_env = \"K\""),
            &["line 4", "plain http", "use https"],
        ),
        (
            lab("base_url = \"https://h/\"\nmodel = \"m\"\napi_key_env = \"sk-123\""),
            &["line 6", "`api_key_env`", "not shown"],
        ),
        (lab(&format!("{url}model = \"m\"\nmax_output = 0")), &["line 6", "`max_output`"]),
        (
            lab(&format!("{url}model = \"m\"\ncontext_window = 10\nmax_output = 10")),
            &["line 7", "`max_output`", "context_window (10)"],
        ),
        (lab(&format!("{url}model = \"m\"\nmax_output = 10\nmax_output_cap = 5")), &["line 7", "`max_output_cap`"]),
        (lab(&format!("{url}model = \"m\"\nmax_concurrency = 0")), &["line 6", "`max_concurrency`"]),
        (
            lab(&format!("{url}model = \"m\"\napi_key = \"sk-123\"")),
            &["line 6", "`api_key`", "did you mean `api_key_env`"],
        ),
        ("[[provider]]\nid = \"ollama\"\n".into(), &["`model`", "name the model"]),
    ];
    for (text, parts) in cases {
        let error = parsed(&text).expect_err(&text);
        for part in parts {
            assert!(error.contains(part), "{text}\n{error}\nlacks {part}");
        }
        assert!(!error.contains("sk-123"), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn an_unknown_window_is_assumed_and_said_once() {
    let text = "[[provider]]\nid = \"lab\"\nwire = \"openai\"\nbase_url = \"http://127.0.0.1:1/v1\"\nmodel = \"m\"\n";
    let config = parsed(text).expect("it loads");
    assert_eq!((config.providers[0].context_window, config.providers[0].max_output), (32_000, 4_096));
    assert!(config.warnings.len() == 1 && config.warnings[0].contains("no context_window"), "{:?}", config.warnings);
}

#[test]
fn a_preset_at_another_address_does_not_get_that_providers_key() {
    let config = parsed("[[provider]]\nid = \"openai\"\nbase_url = \"https://elsewhere/v1\"\n").expect("it loads");
    assert_eq!(config.providers[0].key, KeyFrom::Nowhere);
}

#[test]
fn a_key_file_starts_at_home_or_at_the_file() {
    for (name, path) in [("~/k", "/home/me/k"), ("k", "/c/k"), ("/k", "/k")] {
        let config = parsed(&format!("[[provider]]\nid = \"openai\"\napi_key_file = \"{name}\"\n")).expect("it loads");
        assert_eq!(config.providers[0].key, KeyFrom::File(path.into()));
    }
}
