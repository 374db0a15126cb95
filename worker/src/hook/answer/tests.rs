//! Exit codes, JSON and text, as data.

use HookPoint::{
    Notification, PermissionRequest, PostToolUse, PostToolUseFailure, PreToolUse, SessionEnd, SessionStart, Stop,
    UserPromptSubmit,
};
use HookSaid::{Allowed, Asked, Blocked, FailedClosed, FailedOpen, Passed, Stopped};
use serde_json::json;

use super::*;

fn ran(ended: Ended, stdout: &[u8], stderr: &str) -> Ran {
    let caught = |bytes: &[u8]| Caught { bytes: bytes.to_vec(), cut: false };
    Ran { ended, stdout: caught(stdout), stderr: caught(stderr.as_bytes()) }
}

fn read(on: HookPoint, ran: &Ran) -> Answer {
    Answer::read(on, ran, false)
}

#[test]
fn an_exit_says_what_the_contract_says_and_before_a_call_a_failure_is_a_no() {
    let told = "nope";
    for (on, ended, expected, detail) in [
        (PreToolUse, Ended::Code(0), Passed, ""),
        (PreToolUse, Ended::Code(2), Blocked, "nope"),
        (PreToolUse, Ended::Code(1), FailedClosed, "it exited 1: nope"),
        (PreToolUse, Ended::Code(127), FailedClosed, "it exited 127: nope"),
        (PreToolUse, Ended::Signal(9), FailedClosed, "signal 9"),
        (PreToolUse, Ended::TimedOut, FailedClosed, "timeout"),
        (PreToolUse, Ended::Cancelled, FailedClosed, "cancelled"),
        (PreToolUse, Ended::NotStarted("no shell".to_owned()), FailedClosed, "no shell"),
        (PermissionRequest, Ended::Code(3), FailedClosed, "it exited 3"),
        (UserPromptSubmit, Ended::Code(2), Blocked, "nope"),
        (UserPromptSubmit, Ended::TimedOut, FailedClosed, "timeout"),
        (PostToolUse, Ended::Code(2), Blocked, "nope"),
        (PostToolUse, Ended::Code(1), FailedOpen, "it exited 1"),
        (PostToolUseFailure, Ended::Code(2), Blocked, "nope"),
        (Stop, Ended::Code(2), Blocked, "nope"),
        (Stop, Ended::TimedOut, FailedOpen, "timeout"),
        (SessionEnd, Ended::Code(2), FailedOpen, "it exited 2"),
        (Notification, Ended::Code(2), FailedOpen, "it exited 2"),
    ] {
        let stderr = if matches!(ended, Ended::Code(0)) { "" } else { told };
        let answer = read(on, &ran(ended.clone(), b"", stderr));
        assert_eq!(answer.said, expected, "{on:?} {ended:?}");
        assert!(answer.detail.contains(detail), "{on:?} {ended:?}: {}", answer.detail);
    }
    let open = Answer::read(PreToolUse, &ran(Ended::TimedOut, b"", ""), true);
    assert_eq!(open.said, FailedOpen, "onFailure: continue");
    let blocked = Answer::read(PreToolUse, &ran(Ended::Code(2), b"", ""), true);
    assert_eq!((blocked.said, &*blocked.detail), (Blocked, "it gave no reason"), "a no is no failure");
}

#[test]
fn json_says_what_the_contract_says() {
    let specific = |on: HookPoint, inner: Value| {
        let mut inner = inner;
        inner["hookEventName"] = json!(on.as_str());
        json!({"hookSpecificOutput": inner})
    };
    for (on, stdout, expected, detail) in [
        (
            PreToolUse,
            specific(PreToolUse, json!({"permissionDecision": "allow", "permissionDecisionReason": "fine"})),
            Allowed,
            "fine",
        ),
        (
            PreToolUse,
            specific(PreToolUse, json!({"permissionDecision": "deny", "permissionDecisionReason": "no"})),
            Blocked,
            "no",
        ),
        (PreToolUse, specific(PreToolUse, json!({"permissionDecision": "deny"})), Blocked, "it gave no reason"),
        (PreToolUse, specific(PreToolUse, json!({"permissionDecision": "ask"})), Asked, ""),
        (PreToolUse, specific(PreToolUse, json!({"permissionDecision": "defer"})), Asked, ""),
        (PreToolUse, specific(PreToolUse, json!({"permissionDecision": "alow"})), FailedClosed, "alow"),
        (PreToolUse, specific(PreToolUse, json!({"permissionDecision": 1})), FailedClosed, "no text"),
        (PreToolUse, specific(PreToolUse, json!({"updatedInput": "x"})), FailedClosed, "no object"),
        (PreToolUse, specific(Stop, json!({"permissionDecision": "deny"})), FailedClosed, "Stop"),
        (PreToolUse, json!({"permissionDecision": "deny", "reason": "at the top"}), Blocked, "at the top"),
        (PreToolUse, json!({"decision": "approve", "reason": "old"}), Allowed, "old"),
        (PreToolUse, json!({"decision": "block", "reason": "old"}), Blocked, "old"),
        (PreToolUse, json!({"decision": "deny"}), FailedClosed, "no decision `deny`"),
        (PreToolUse, json!({"systemMessage": "hello", "suppressOutput": true}), Passed, "hello"),
        (PreToolUse, json!({"continue": false, "stopReason": "enough", "decision": "approve"}), Stopped, "enough"),
        (PreToolUse, json!({"continue": "no"}), FailedClosed, "`continue`"),
        (PreToolUse, json!({}), Passed, ""),
        (PermissionRequest, specific(PermissionRequest, json!({"decision": {"behavior": "allow"}})), Allowed, ""),
        (
            PermissionRequest,
            specific(PermissionRequest, json!({"decision": {"behavior": "deny", "message": "not now"}})),
            Blocked,
            "not now",
        ),
        (
            PermissionRequest,
            specific(PermissionRequest, json!({"decision": {"behavior": "deny", "interrupt": true, "message": "out"}})),
            Stopped,
            "out",
        ),
        (PermissionRequest, specific(PermissionRequest, json!({"decision": {"behavior": "x"}})), FailedClosed, "`x`"),
        (PostToolUse, json!({"decision": "block", "reason": "lint"}), Blocked, "lint"),
        (PostToolUse, json!({"decision": "blok"}), FailedOpen, "blok"),
        (Stop, json!({"decision": "block", "reason": "go on"}), Blocked, "go on"),
        (Stop, json!({"continue": false}), Stopped, "a hook ended the job"),
        (UserPromptSubmit, json!({"decision": "block", "reason": "no"}), Blocked, "no"),
        (SessionEnd, json!({"continue": false}), Passed, ""),
        (Notification, json!({"continue": false, "systemMessage": "m"}), Passed, "m"),
    ] {
        let answer = read(on, &ran(Ended::Code(0), stdout.to_string().as_bytes(), "noise"));
        assert_eq!(answer.said, expected, "{on:?} {stdout}: {}", answer.detail);
        assert!(answer.detail.contains(detail), "{on:?} {stdout}: {}", answer.detail);
    }
}

#[test]
fn what_is_no_json_is_context_or_nothing_or_a_no() {
    for (on, stdout, expected, context) in [
        (SessionStart, &b"today is Monday\n"[..], Passed, "today is Monday"),
        (UserPromptSubmit, b"branch: main", Passed, "branch: main"),
        (UserPromptSubmit, b"{broken", FailedClosed, ""),
        (UserPromptSubmit, b"\xff\xfe", FailedClosed, ""),
        (PreToolUse, b" \n", Passed, ""),
        (PreToolUse, b"looks good", FailedClosed, ""),
        (PreToolUse, b"{\"decision\": \"approve\"} trailing", FailedClosed, ""),
        (PreToolUse, b"[]", FailedClosed, ""),
        (PermissionRequest, b"yes", FailedClosed, ""),
        (PostToolUse, b"formatted a.rs", Passed, ""),
        (Stop, b"bye", Passed, ""),
    ] {
        let answer = read(on, &ran(Ended::Code(0), stdout, ""));
        let shown = String::from_utf8_lossy(stdout);
        assert_eq!((answer.said, &*answer.context), (expected, context), "{on:?} {shown}");
    }
    let mut much = ran(Ended::Code(0), b"{}", "");
    much.stdout.cut = true;
    assert_eq!(read(PreToolUse, &much).said, FailedClosed);
    assert_eq!(read(PostToolUse, &much).said, FailedOpen);
}

#[test]
fn what_is_to_be_changed_is_taken_where_it_counts() {
    let stdout = json!({"hookSpecificOutput": {
        "additionalContext": "mind the gap",
        "updatedInput": {"command": "ls"},
        "updatedToolOutput": {"stdout": "x"},
        "decision": {"behavior": "allow", "updatedInput": {"command": "pwd"}},
    }});
    let ran = ran(Ended::Code(0), stdout.to_string().as_bytes(), "");
    let command = |answer: &Answer| answer.input.as_ref().map(|input| input.0["command"].clone());
    let pre = read(PreToolUse, &ran);
    assert_eq!((command(&pre), pre.output, &*pre.context), (Some(json!("ls")), None, "mind the gap"));
    assert_eq!(command(&read(PermissionRequest, &ran)), Some(json!("pwd")));
    let post = read(PostToolUse, &ran);
    assert_eq!((command(&post), post.output), (None, Some(json!({"stdout": "x"}))));
    assert_eq!(cut("abcdef", 3), "abc… [cut at 3 characters]");
}
