//! A reply without the secrets that stand in it: what is judged, run, recorded, shown and sent back is one text.

use ukai_protocol::message::Args;
use ukai_protocol::secret::fingerprint::Mask;
use uuid::Uuid;

use super::wire::Reply;

pub(super) fn mask_reply(reply: &mut Reply, mask: &Mask) {
    mask.mask(&mut reply.text);
    for call in &mut reply.calls {
        mask.mask(&mut call.tool);
        if mask.masked(&call.id) != call.id {
            call.id = Uuid::new_v4().to_string();
        }
        match &mut call.args {
            Args::Whole(json) => mask.mask_json(json),
            Args::Broken { text, why } => {
                mask.mask(text);
                mask.mask(why);
            }
        }
    }
    // Its provider wants it byte for byte or not at all.
    reply.opaque.retain(|opaque| {
        let text = opaque.data.to_text();
        mask.masked(&text) == text
    });
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use ukai_protocol::json::Json;
    use ukai_protocol::message::{Call, Opaque, Stop};
    use ukai_protocol::secret::Secret;
    use ukai_protocol::secret::fingerprint::Fingerprints;

    use super::*;
    use crate::provider::wire::Reported;

    const KEY: &str = "sk-0123456789";

    fn json(value: Value) -> Json {
        let Value::Object(map) = value else { panic!("an object") };
        Json(map)
    }

    #[test]
    fn no_field_of_a_reply_keeps_a_key() {
        let call = |id: &str, args| Call { id: id.to_owned(), tool: format!("Read{KEY}"), args };
        let opaque = |data| Opaque { provider: "lab".to_owned(), data: json(data) };
        let mut reply = Reply {
            text: format!("it is {KEY}."),
            calls: vec![
                call(KEY, Args::Whole(json(json!({"file_path": [KEY], KEY: 1})))),
                call("c2", Args::Broken { text: format!("{{{KEY}"), why: format!("at {KEY}") }),
            ],
            opaque: vec![opaque(json!({"signature": "abc"})), opaque(json!({"thinking": format!("so {KEY}")}))],
            stop: Stop::End,
            usage: Reported::default(),
            bytes: 0,
        };
        mask_reply(&mut reply, &Mask::new(Fingerprints::of([1; 32], &[Secret::new(KEY.to_owned())])));
        assert!(!format!("{reply:?}").contains(KEY), "{reply:?}");
        assert_eq!(reply.text, "it is [secret].");
        assert_eq!((reply.calls[0].tool.as_str(), reply.calls[1].id.as_str()), ("Read[secret]", "c2"));
        assert_eq!(reply.opaque, [opaque(json!({"signature": "abc"}))]);
    }
}
