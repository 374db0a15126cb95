//! Answers and what each means: the status, the body where it knows better, and the wait that a body names.

use std::time::Duration;

use serde_json::{Value, json};

use super::*;

/// Fri, 15 May 2026 15:34:21 GMT.
fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_778_859_261)
}

fn check(quirk: &str, status: u16, body: &str, expected: AnswerClass) {
    let failure = refused(status, &HeaderMap::new(), body, now());
    assert_eq!(failure.class, expected, "{quirk}: {failure:?}");
}

#[test]
fn the_status_decides() {
    use AnswerClass::*;
    for status in [408, 499, 500, 501, 502, 503, 504, 520, 529] {
        check("unavailable", status, "", Unavailable);
    }
    for status in [401, 402, 403] {
        check("closed", status, "", Closed);
    }
    for status in [400, 404, 405, 409, 410, 415, 418, 422, 451] {
        check("rejected", status, "", Rejected);
    }
    check("limited", 429, "", RateLimited);
    check("too large", 413, "", ContextOverflow);
    for status in [301, 302, 307, 308, 304, 204, 206] {
        check("no answer of an API", status, "", Unavailable);
    }
}

#[test]
fn the_body_knows_better() {
    use AnswerClass::*;
    #[rustfmt::skip]
    let cases = [
        ("OpenAI: too long", 400, r#"{"error":{"message":"This model's maximum context length is 128000 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}"#, ContextOverflow),
        ("Anthropic: too long", 400, r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#, ContextOverflow),
        ("Anthropic: input and output", 400, r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 190000 + 21333 > 200000"}}"#, ContextOverflow),
        ("llama.cpp: too long", 400, r#"{"error":{"code":400,"message":"request (4476 tokens) exceeds the available context size (4096 tokens)","type":"exceed_context_size_error"}}"#, ContextOverflow),
        ("a gateway wraps it as 500", 500, r#"{"error":{"message":"litellm: prompt is too long"}}"#, ContextOverflow),
        ("OpenAI: can never fit into a minute", 429, r#"{"error":{"message":"Request too large for gpt-4o: Limit 30000, Requested 40000. The input or output tokens must be reduced in order to run successfully.","type":"tokens","code":"rate_limit_exceeded"}}"#, ContextOverflow),
        ("OpenAI: quota", 429, r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","code":"insufficient_quota"}}"#, Closed),
        ("OpenAI: a limit that passes", 429, r#"{"error":{"message":"Rate limit reached for gpt-4o on tokens per min (TPM)","type":"tokens","code":"rate_limit_exceeded"}}"#, RateLimited),
        ("Anthropic: a limit that passes", 429, r#"{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your organization's rate limit of 40,000 input tokens per minute"}}"#, RateLimited),
        ("Anthropic: no money, as 400", 400, r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}"#, Closed),
        ("GLM: no money, as 429", 429, r#"{"error":{"code":"1113","message":"余额不足或无可用资源包,请充值。"}}"#, Closed),
        ("Moonshot: quota", 429, r#"{"error":{"type":"exceeded_current_quota_error","message":"suspended"}}"#, Closed),
        ("Gemini: a day's quota, in a list", 429, r#"[{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"You exceeded your current quota","details":[{"violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}]}}]"#, Closed),
        ("Gemini: a minute's quota", 429, r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"You exceeded your current quota","details":[{"violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel"}]}]}}"#, RateLimited),
        ("Azure: content filter", 400, r#"{"error":{"code":"content_filter","message":"The response was filtered"}}"#, Rejected),
        ("a forbidden filter is no key problem", 403, r#"{"error":{"code":403,"message":"requires moderation","metadata":{"flagged_input":"x"}}}"#, Rejected),
        ("Ollama: no tools", 400, r#"{"error":{"message":"registry.ollama.ai/library/gemma3:4b does not support tools","type":"api_error"}}"#, NoTools),
        ("OpenRouter: no tools", 404, r#"{"error":{"message":"No endpoints found that support tool use. To learn more about provider routing, visit: x","code":404}}"#, NoTools),
        ("vLLM: no tools", 400, r#"{"error":{"message":"\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set","code":400}}"#, NoTools),
        ("no such model", 404, r#"{"error":{"message":"The model `x` does not exist","code":"model_not_found"}}"#, Rejected),
        ("wrong key", 401, r#"{"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}"#, Closed),
        ("overloaded", 529, r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, Unavailable),
        ("a page of a proxy", 502, "<html>Bad Gateway</html>", Unavailable),
        ("Gemini: both quotas named", 429, r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"You exceeded your current quota","details":[{"violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel-FreeTier"},{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}]}}"#, Closed),
        ("Gemini: no quota named, but when to come back", 429, r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"You exceeded your current quota, please check your plan and billing details.","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"38s"}]}}"#, RateLimited),
        ("Gemini: neither, as it says at the end of a day", 429, r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"You exceeded your current quota, please check your plan and billing details.","details":[{"@type":"type.googleapis.com/google.rpc.Help"}]}}"#, Closed),
        ("Gemini: a shared pool is full", 429, r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"Resource exhausted. Please try again later."}}"#, RateLimited),
        ("Gemini: prepaid money is spent, whatever it says of a minute", 429, r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"Your prepayment credits are depleted.","details":[{"retryDelay":"1s"}]}}"#, Closed),
        ("Gemini: a wrong key, as 400", 400, r#"{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}"#, Closed),
        ("Gemini: not in this country, as 400", 400, r#"{"error":{"code":400,"message":"User location is not supported for the API use.","status":"FAILED_PRECONDITION"}}"#, Closed),
        ("Gemini: too long", 400, r#"{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}"#, ContextOverflow),
        ("Gemini: no tools", 400, r#"{"error":{"code":400,"message":"Function calling is not enabled for models/gemma-3-4b-it","status":"INVALID_ARGUMENT"}}"#, NoTools),
        ("Gemini: a call without its signature", 400, r#"{"error":{"code":400,"message":"Function call is missing a thought_signature in functionCall parts.","status":"INVALID_ARGUMENT"}}"#, Rejected),
        ("Gemini: overloaded", 503, r#"{"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}"#, Unavailable),
        ("OpenAI: a day's requests pass too, and their reset is named", 429, r#"{"error":{"message":"Rate limit reached for gpt-4o on requests per day (RPD): Limit 200, Used 200. Please try again in 7m12s.","type":"requests","code":"rate_limit_exceeded"}}"#, RateLimited),
        ("Anthropic: a spend limit, as 429", 429, r#"{"type":"error","error":{"type":"rate_limit_error","message":"spend limit","details":{"error_code":"enforced_spend_limit_reached"}}}"#, Closed),
        ("Anthropic: a spend limit, as 400", 400, r#"{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits. You will regain access on 2026-06-01 at 00:00 UTC."}}"#, Closed),
        ("OpenRouter: no money", 402, r#"{"error":{"message":"Insufficient credits","code":402}}"#, Closed),
        ("OpenRouter: the free models' day", 429, r#"{"error":{"message":"Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests per day","code":429}}"#, Closed),
        ("OpenRouter: the free models' minute", 429, r#"{"error":{"message":"Rate limit exceeded: free-models-per-min.","code":429}}"#, RateLimited),
        ("OpenRouter: whom it asked is down", 502, r#"{"error":{"message":"Provider returned error","code":502}}"#, Unavailable),
        ("DeepSeek: no money", 402, r#"{"error":{"message":"Insufficient Balance","type":"unknown_error","code":"invalid_request_error"}}"#, Closed),
        ("DeepSeek: too long", 400, r#"{"error":{"message":"Input token exceed the limit","code":"quota_limit_reached"}}"#, ContextOverflow),
        ("DeepSeek: overloaded", 503, r#"{"error":{"message":"Service is too busy"}}"#, Unavailable),
        ("DeepSeek: limited", 429, r#"{"error":{"message":"Rate limit reached"}}"#, RateLimited),
        ("Moonshot: overloaded, as 429", 429, r#"{"error":{"message":"The engine is currently overloaded, please try again later","type":"engine_overloaded_error"}}"#, Unavailable),
        ("Moonshot: a minute's limit", 429, r#"{"error":{"message":"Your account reached max request: 3, please try again after 1 seconds","type":"rate_limit_reached_error"}}"#, RateLimited),
        ("Moonshot: a day's tokens", 429, r#"{"error":{"message":"Your account request reached TPD rate limit, current: 1, limit: 1500000","type":"rate_limit_reached_error"}}"#, Closed),
        ("Moonshot: too long", 400, r#"{"error":{"message":"Invalid request: Your request exceeded model token limit: 262144 (requested: 269030)","type":"invalid_request_error"}}"#, ContextOverflow),
        ("GLM: concurrency", 429, r#"{"error":{"code":"1302","message":"High concurrency usage of this API"}}"#, RateLimited),
        ("GLM: frequency", 429, r#"{"error":{"code":"1303","message":"High frequency usage of this API"}}"#, RateLimited),
        ("GLM: the day's calls", 429, r#"{"error":{"code":"1304","message":"The API has reached its call limit for today"}}"#, Closed),
        ("GLM: overloaded, as 429", 429, r#"{"error":{"code":"1305","message":"The service may be temporarily overloaded, please try again later"}}"#, Unavailable),
        ("GLM: a model is overloaded, as 429", 429, r#"{"error":{"code":"1312","message":"该模型当前访问量过大，请您稍后再试"}}"#, Unavailable),
        ("GLM: a plan's five hours", 429, r#"{"error":{"code":"1308","message":"Usage limit reached for 5 hour. Your limit will reset at 2026-05-15 18:34:21"}}"#, Closed),
        ("GLM: a plan's week", 429, r#"{"error":{"code":"1310","message":"Weekly/Monthly Limit Exhausted. Your limit will reset at 2026-05-27 12:05:49"}}"#, Closed),
        ("GLM: the plan has ended", 429, r#"{"error":{"code":"1309","message":"Your GLM Coding Plan has expired"}}"#, Closed),
        ("GLM: locked", 429, r#"{"error":{"code":1112,"message":"Your account is locked"}}"#, Closed),
        ("GLM: too long", 400, r#"{"error":{"code":"1261","message":"Prompt 超长"}}"#, ContextOverflow),
        ("GLM: a filter", 400, r#"{"error":{"code":"1301","message":"系统检测到输入或生成内容可能包含不安全或敏感内容"}}"#, Rejected),
        ("GLM on its Anthropic endpoint: no money", 429, r#"{"type":"error","error":{"type":"1113","message":"Insufficient balance or no resource package. Please recharge."}}"#, Closed),
        ("MiniMax: no money, as 500", 500, r#"{"type":"error","error":{"type":"api_error","message":"insufficient balance (1008)"}}"#, Closed),
        ("MiniMax: a plan's five hours", 429, r#"{"type":"error","error":{"type":"rate_limit_error","message":"usage limit exceeded, 5-hour usage limit reached for Token Plan Starter (0/0 used), resets at 2026-05-15T18:00:00Z (2056)"}}"#, Closed),
        ("MiniMax: limited, as 500", 500, r#"{"type":"error","error":{"type":"api_error","message":"rate limit (1002)"}}"#, RateLimited),
        ("MiniMax: limited, by its own words", 429, r#"{"base_resp":{"status_code":1002,"status_msg":"rate limit"}}"#, RateLimited),
        ("MiniMax: a broken machine, as 500", 500, r#"{"type":"error","error":{"type":"api_error","message":"system error (1033)"}}"#, Unavailable),
        ("MiniMax: a filter, as 500", 500, r#"{"type":"error","error":{"type":"api_error","message":"input new_sensitive (1026)"}}"#, Rejected),
        ("Bedrock's throttle is no overflow", 429, r#"{"message":"Too many tokens, please wait before trying again."}"#, RateLimited),
    ];
    for (quirk, status, body, expected) in cases {
        check(quirk, status, body, expected);
    }
}

#[test]
fn an_error_inside_an_answer() {
    use AnswerClass::*;
    for (quirk, error, expected) in [
        ("overloaded", json!({"type": "overloaded_error", "message": "Overloaded"}), Unavailable),
        ("limited", json!({"type": "rate_limit_error", "message": "slow down"}), Unavailable),
        ("too long", json!({"type": "invalid_request_error", "message": "prompt is too long"}), ContextOverflow),
        ("no money", json!({"code": "insufficient_quota"}), Closed),
        ("MiniMax", json!({"status_code": 1008, "status_msg": "insufficient balance"}), Closed),
        ("MiniMax: a wrong key", json!({"status_code": 1004, "status_msg": "login fail"}), Closed),
        ("MiniMax: limited", json!({"status_code": 1002, "status_msg": "rate limit"}), Unavailable),
        ("MiniMax: a filter", json!({"status_code": 1027, "status_msg": "output new_sensitive"}), Rejected),
        (
            "MiniMax: too long",
            json!({"status_code": 2013, "status_msg": "context window exceeds limit (2013)"}),
            ContextOverflow,
        ),
        ("Gemini: limited", json!({"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slow down"}), Unavailable),
        ("Gemini: overloaded", json!({"code": 503, "status": "UNAVAILABLE", "message": "overloaded"}), Unavailable),
        ("Gemini: the key was withdrawn", json!({"code": 403, "status": "PERMISSION_DENIED", "message": "x"}), Closed),
        ("Gemini: a signature is missing", json!({"status": "MISSING_THOUGHT_SIGNATURE", "message": "x"}), Rejected),
        ("OpenRouter: no money in the middle", json!({"code": 402, "message": "more credits are needed"}), Closed),
        ("OpenRouter: whom it asked broke off", json!({"code": 502, "message": "Provider disconnected"}), Unavailable),
        ("a bare text", json!("boom"), Unavailable),
    ] {
        let failure = Failure::trouble(&Trouble::Told(error), now());
        assert_eq!(failure.class, expected, "{quirk}: {failure:?}");
    }
    let depth = Failure::trouble(&Trouble::Depth { tool: "Read".into(), depth: 33 }, now());
    assert_eq!((depth.class, depth.fatal), (Success, Some(CauseKind::Depth)));
}

#[test]
fn detail_and_signature_are_fit_to_be_shown() {
    let body = format!(
        r#"{{"error":{{"type":"x_error","code":"say hello","message":"key sk-secret-1 \u001b[31mred\n{}"}}}}"#,
        "y".repeat(5_000)
    );
    let failure = refused(400, &HeaderMap::new(), &body, now()).without(Some("sk-secret-1"));
    assert!(!failure.detail.contains("sk-secret-1") && failure.detail.contains("[key]"), "{}", failure.detail);
    assert!(failure.detail.starts_with("HTTP 400: key"), "{}", failure.detail);
    assert!(failure.detail.chars().all(|c| !c.is_control()) && failure.detail.chars().count() < 600);
    assert_eq!(failure.signature, "http:400 type=x_error", "a code of two words is prose");
}

#[test]
fn a_redirect_names_the_host_and_nothing_more() {
    let mut headers = HeaderMap::new();
    headers.insert(header::LOCATION, http::HeaderValue::from_static("https://other.example/login?token=abc"));
    let detail = refused(302, &headers, "", now()).detail;
    assert!(detail.contains("`other.example`") && !detail.contains("abc"), "{detail}");
}

#[test]
fn the_wait_that_a_body_names() {
    use AnswerClass::*;
    let retry_info = |delay: &str| json!([{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}]);
    let gemini = |delay: &str| json!({"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "x", "details": retry_info(delay)});
    let day = json!({"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Please retry in 36.4s.", "details": [
        {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "36s"},
    ]});
    let openrouter = json!({"code": 429, "message": "Rate limit exceeded: free-models-per-day", "metadata": {"headers": {
        "X-RateLimit-Limit": "50", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1778862861000"}}});
    let quoted = json!({"message": "bad request: \"please try again in 9000s\" is no tool"});
    type Case<'a> = (&'a str, u16, &'a [(&'static str, &'static str)], Value, AnswerClass, Option<u64>);
    #[rustfmt::skip]
    let cases: [Case<'_>; 14] = [
        ("Gemini's", 429, &[], gemini("17s"), RateLimited, Some(17_000)),
        ("Gemini's, 0", 429, &[], gemini("0s"), RateLimited, Some(1_000)),
        ("Gemini's, later than the header's", 429, &[("retry-after", "5")], gemini("17s"), RateLimited, Some(17_000)),
        ("Gemini's, earlier than the header's", 429, &[("retry-after", "50")], gemini("17s"), RateLimited, Some(50_000)),
        ("Gemini's, beside a status of another kind", 503, &[], gemini("7s"), Unavailable, Some(7_000)),
        ("a day's quota with its word", 429, &[], day, Closed, Some(36_000)),
        ("OpenRouter's", 429, &[], openrouter, Closed, Some(3_600_000)),
        ("OpenAI's sentence, no header", 429, &[], json!({"message": "Please try again in 6m0s."}), RateLimited, Some(360_000)),
        ("Azure's two headers", 429, &[("retry-after-ms", "1500"), ("x-ms-retry-after-ms", "2500")], json!({}), RateLimited, Some(2_500)),
        ("MiniMax's instant", 429, &[], json!({"message": "usage limit exceeded, resets at 2026-05-15T16:34:21Z (2056)"}), Closed, Some(3_600_000)),
        ("GLM's instant", 429, &[], json!({"code": "1308", "message": "Your limit will reset at 2026-05-15 16:34:21"}), Closed, Some(3_600_000)),
        ("Anthropic's instant", 400, &[], json!({"message": "You have reached your specified API usage limits. You will regain access on 2026-05-15 at 16:34 UTC."}), Closed, Some(3_579_000)),
        ("a quotation of the request", 400, &[], quoted, Rejected, None),
        ("none", 429, &[], json!({"message": "slow down"}), RateLimited, None),
    ];
    for (quirk, status, pairs, error, class, expected) in cases {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, http::HeaderValue::from_static(value));
        }
        for body in [json!({"error": error}), json!([{"error": error}])] {
            let named = retry_after::wait(&headers, now());
            let failure = with_headers(refused(status, &headers, &body.to_string(), now()), &headers, named);
            let waits = (failure.class, failure.wait);
            assert_eq!(waits, (class, expected.map(Wait::For)), "{quirk}: {failure:?}");
        }
        // The same inside an answer, which has no headers of its own any more.
        if pairs.is_empty() && class != Rejected {
            let failure = Failure::trouble(&Trouble::Told(error), now());
            assert_eq!(failure.wait, expected.map(Wait::For), "{quirk}, inside: {failure:?}");
        }
    }
}

#[test]
fn text_that_is_no_json_may_name_a_wait() {
    let failure = refused(503, &HeaderMap::new(), "Over capacity. Please retry in 20s.", now());
    assert_eq!((failure.class, failure.wait), (AnswerClass::Unavailable, Some(Wait::For(20_000))));
}
