//! What each wire has of its own on a real socket: where it asks, with what key, and errors that come after a 200.

use super::*;

async fn on(wire: Wire, acts: Vec<Act>) -> Asked {
    ask_on(wire, acts, Timeouts::default(), CancellationToken::new()).await
}

#[tokio::test]
async fn each_wire_asks_at_its_place_with_its_key() {
    let recorded = [
        (Wire::Openai, PARALLEL, "POST /v1/chat/completions HTTP", "authorization: Bearer "),
        (
            Wire::Anthropic,
            include_str!("../../../testdata/anthropic/parallel.sse"),
            "POST /v1/messages HTTP",
            "x-api-key: ",
        ),
        (
            Wire::Gemini,
            include_str!("../../../testdata/gemini/parallel.sse"),
            "POST /v1beta/models/m:streamGenerateContent?alt=sse HTTP",
            "x-goog-api-key: ",
        ),
    ];
    for (wire, stream, place, key) in recorded {
        let asked = on(wire, vec![stream_head(), write(stream)]).await;
        let answered = asked.result.expect("a reply");
        assert_eq!((answered.reply.calls.len(), answered.usage.estimated), (2, false), "{wire:?}");
        assert_eq!(asked.text, answered.reply.text, "{wire:?}");
        assert!(asked.received.starts_with(place), "{wire:?}: {}", asked.received);
        assert!(asked.received.contains(&format!("{key}{KEY}\r\n")), "{wire:?}: {}", asked.received);
    }
}

#[tokio::test]
async fn a_list_of_responses_is_a_reply() {
    let stream = include_str!("../../../testdata/gemini/parallel.sse");
    let chunks: Vec<&str> = stream.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    let body = format!("[{}\n]", chunks.join("\n,\r\n"));
    let answer = Act::Write(head("200 OK", "content-type: application/json; charset=UTF-8\r\n") + &body);
    let asked = on(Wire::Gemini, vec![answer]).await;
    let reply = asked.result.expect("a reply").reply;
    assert_eq!((asked.text.as_str(), reply.calls.len(), reply.opaque.len()), ("I will look 鵜", 2, 1));
    let cut = Act::Write(head("200 OK", "content-type: application/json\r\n") + &body[..body.len() - 40]);
    let failure = on(Wire::Gemini, vec![cut]).await.result.expect_err("cut");
    assert_eq!((failure.class, failure.signature.as_str()), (AnswerClass::Unavailable, "stream:unreadable"));
}

#[tokio::test]
async fn no_wire_takes_a_stream_without_its_end_for_a_reply() {
    for (wire, begun) in [
        (Wire::Openai, "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n"),
        (
            Wire::Anthropic,
            "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"x\"}}\n\n",
        ),
        (Wire::Gemini, "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"x\"}]}}]}\n\n"),
    ] {
        let asked = on(wire, vec![stream_head(), write(begun)]).await;
        let failure = asked.result.expect_err("cut");
        assert_eq!((failure.class, failure.signature.as_str()), (AnswerClass::Unavailable, "stream:cut"), "{wire:?}");
        assert_eq!((asked.text.as_str(), failure.spent.map(|spent| spent.output)), ("x", Some(1)), "{wire:?}");
    }
}

#[tokio::test]
async fn a_wait_inside_an_answer_reaches_the_report() {
    let retry_info = "\"details\":[{\"@type\":\"type.googleapis.com/google.rpc.RetryInfo\",\"retryDelay\":\"17s\"}]";
    for (wire, event) in [
        (Wire::Openai, "data: {\"error\":{\"message\":\"Rate limit reached. Please try again in 17s.\"}}\n\n".to_owned()),
        (
            Wire::Anthropic,
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"Please try \
             again in 17s.\"}}\n\n"
                .to_owned(),
        ),
        (Wire::Gemini, include_str!("../../../testdata/gemini/retry_info.sse").to_owned()),
        (Wire::Openai, format!("data: [{{\"error\":{{\"message\":\"x\",{retry_info}}}}}]\n\n")),
    ] {
        let failure = on(wire, vec![stream_head(), write(&event), Act::Hang]).await.result.expect_err("an error");
        assert_eq!((failure.class, failure.wait), (AnswerClass::Unavailable, Some(Wait::For(17_000))), "{wire:?}");
    }
}

#[tokio::test]
async fn a_wait_in_the_body_of_a_refusal_reaches_the_report() {
    let body = "{\"error\":{\"code\":429,\"status\":\"RESOURCE_EXHAUSTED\",\"message\":\"x\",\"details\":[\
                {\"@type\":\"type.googleapis.com/google.rpc.RetryInfo\",\"retryDelay\":\"17s\"}]}}";
    for (headers, expected) in [("", 17_000), ("retry-after: 5\r\n", 17_000), ("retry-after: 50\r\n", 50_000)] {
        let acts = vec![Act::Write(head("429 Too Many Requests", headers) + body)];
        let failure = on(Wire::Gemini, acts).await.result.expect_err("429");
        assert_eq!((failure.class, failure.wait), (AnswerClass::RateLimited, Some(Wait::For(expected))), "{headers}");
    }
}
