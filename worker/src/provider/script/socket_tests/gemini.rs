//! What only Gemini has: chunks in two forms, blocked prompts, waits in bodies, signatures on parts.

use super::*;

#[tokio::test]
async fn gemini_streams_chunks_that_are_whole_responses() {
    let wire = Wire::Gemini;
    let address = start(CALLS, None).await;
    let request = body(wire, &[user(wire, "src")], &json!({}));
    let events_of = post(address, "/v1/models/lab-1:streamGenerateContent?key=k&alt=sse", &request).await;
    assert!(events_of.head.contains("content-type: text/event-stream"), "{}", events_of.head);
    assert!(events_of.body.ends_with("\r\n\r\n"), "{}", events_of.body);
    let array = post(address, "/v1beta/models/lab-1:streamGenerateContent", &request).await;
    assert!(array.head.contains("content-type: application/json"), "{}", array.head);
    let array: Vec<Value> = serde_json::from_str(&array.body).expect("one JSON array");
    let chunks = events(&events_of.body);
    // The array has one chunk more, which says nothing.
    assert_eq!((chunks.as_slice(), array[0].get("candidates")), (&array[1..], None));
    assert_eq!(joined(&chunks, "/candidates/0/content/parts/0/text"), "Looking into src.");
    assert_eq!(joined(&chunks, "/candidates/0/content/parts/0/functionCall/name"), "Glob");
    assert_eq!(joined(&chunks, "/candidates/0/content/parts/1/functionCall/name"), "Grep");
    assert_eq!(joined(&chunks, "/candidates/0/finishReason"), "STOP");
    let last = chunks.last().expect("chunks");
    assert_eq!(last.pointer("/usageMetadata/cachedContentTokenCount"), Some(&json!(4)), "{last}");
    assert_eq!(last.pointer("/usageMetadata/totalTokenCount"), Some(&json!(15)), "{last}");
    assert_eq!(last["modelVersion"], "lab-1");
}

#[tokio::test]
async fn what_gemini_alone_says_is_said() {
    let wire = Wire::Gemini;
    for (rule, status, part) in [
        ("fault = { error = 'quota' }", 429, "GenerateRequestsPerDayPerProjectPerModel"),
        ("fault = { error = 'content_filter' }", 200, "\"blockReason\":\"PROHIBITED_CONTENT\""),
        ("fault = { status = 503, retry_info = '{{prompt}}.5s' }", 503, "\"retryDelay\":\"7.5s\""),
        (
            "reply = { text = 'x' }\nfault = { error_event = true, status = 429, retry_info = '9s' }",
            200,
            "\"retryDelay\":\"9s\"",
        ),
        ("reply = { text = 'x', stop = 'filter' }", 200, "\"finishReason\":\"SAFETY\""),
        ("reply = { calls = [{ tool = 'Glob', id = '' }] }", 200, "{\"name\":\"Glob\",\"args\":{}}"),
        (
            "reply = { calls = [{ tool = 'Glob', args = { a = 1 } }] }\nfault = { malformed_arguments = true }",
            200,
            "\"finishReason\":\"MALFORMED_FUNCTION_CALL\"",
        ),
        (
            "reply = { calls = [{ tool = 'Glob', args = { a = 1 } }] }\nfault = { cut_arguments = true }",
            200,
            "\"finishReason\":\"MAX_TOKENS\"",
        ),
    ] {
        let address = start(&format!("[[rule]]\n{rule}"), None).await;
        let got = send(address, wire, &body(wire, &[user(wire, "7")], &stream())).await;
        assert_eq!(got.status, status, "{rule}: {}", got.body);
        assert!(got.body.contains(part), "{rule}: {}", got.body);
    }
}

#[tokio::test]
async fn a_thought_signature_is_wanted_back_byte_for_byte() {
    let script = "[[rule]]\nwhen = { step = 1 }\nreply = { reasoning = 'hm', calls = [{ tool = 'Glob' }, { tool = 'Read' }] }\n[[rule]]\nreply = { text = 'done', reasoning = 'so' }";
    let address = start(script, None).await;
    let wire = Wire::Gemini;
    let first = whole(address, wire, &[user(wire, "x")]).await;
    let mut messages = vec![user(wire, "x")];
    messages.extend(back(wire, &first, "r"));
    let signature = messages[1]["parts"][1]["thoughtSignature"].clone();
    assert!(signature.is_string() && messages[1]["parts"][2]["thoughtSignature"].is_null(), "{first}");
    let last = whole(address, wire, &messages).await;
    assert!(last["candidates"][0]["content"]["parts"][1]["thoughtSignature"].is_string(), "{last}");
    for (given, part) in [
        (Value::Null, "missing a thought_signature"),
        (json!("skip_thought_signature_validator"), "Corrupted thought signature"),
        (json!(signature.as_str().expect("a text").replace('+', "-")), "Corrupted thought signature"),
        (json!("no base64"), "Base64 decoding failed"),
    ] {
        let mut changed = messages.clone();
        changed[1]["parts"][1]["thoughtSignature"] = given;
        let got = send(address, wire, &body(wire, &changed, &json!({}))).await;
        assert_eq!(got.status, 400, "{}", got.body);
        assert!(got.body.contains(part), "{}", got.body);
    }
}

#[tokio::test]
async fn an_array_is_one_in_all_that_may_befall_it() {
    let wire = Wire::Gemini;
    let error = |array: &[Value]| array.last().is_some_and(|last| last["error"]["code"].is_u64());
    for (rule, status, whole, ends_in_error) in [
        ("reply = { text = 'Hello there' }", 200, true, false),
        ("reply = { stop = 'end' }", 200, true, false),
        ("reply = { text = 'Hi' }\nfault = { duplicate_finish = true }", 200, true, false),
        ("reply = { text = 'Hello there' }\nfault = { error_event = true, after_chars = 3 }", 200, true, true),
        ("reply = { text = 'Hello there' }\nfault = { no_terminal_event = true }", 200, false, false),
        ("reply = { text = 'Hello there' }\nfault = { cut = true, after_chars = 3 }", 200, false, false),
        ("fault = { error = 'content_filter' }", 200, true, false),
        ("fault = { error = 'quota' }", 429, true, true),
        ("when.prompt = 'other'\nreply = { text = 'x' }", 404, true, true),
    ] {
        let address = start(&format!("[[rule]]\n{rule}"), None).await;
        let request = body(wire, &[user(wire, "x")], &json!({}));
        let got = post(address, "/v1beta/models/lab-1:streamGenerateContent", &request).await;
        let array: Option<Vec<Value>> = serde_json::from_str(&got.body).ok();
        assert_eq!((got.status, array.is_some()), (status, whole), "{rule}: {}", got.body);
        assert_eq!(array.is_some_and(|array| error(&array)), ends_in_error, "{rule}: {}", got.body);
    }
}
