//! A plan becomes a response: the pauses, the cut and the silence really happen here.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::Response;
use hyper::body::Frame;

use super::play::{End, Piece, Plan};

/// Ends a connection in the middle of an answer.
#[derive(Debug, thiserror::Error)]
#[error("the script cuts the connection here")]
pub struct Cut;

pub type Body = UnsyncBoxBody<Bytes, Cut>;

pub async fn send(plan: Plan) -> Response<Body> {
    match plan.latency {
        Some(latency) => wait(latency).await,
        // The connection's end drops this; nothing else is waited for.
        None => std::future::pending().await,
    }
    let is_stream = plan.headers.iter().any(|(name, value)| name == "content-type" && value == "text/event-stream");
    let at_once = plan.end == End::Whole && plan.pieces.iter().all(|piece| piece.pause.is_zero());
    let body = if at_once && !is_stream {
        let whole: Vec<u8> = plan.pieces.iter().flat_map(|piece| piece.bytes.iter().copied()).collect();
        Full::from(whole).map_err(|never| match never {}).boxed_unsync()
    } else {
        in_pieces(plan.pieces, plan.end)
    };
    let mut response = Response::builder().status(plan.status);
    for (name, value) in &plan.headers {
        response = response.header(name, value);
    }
    // Names are checked when the script is loaded, values when they are rendered.
    response.body(body).unwrap_or_else(|why| {
        let text = format!("the script gives a header that cannot be sent: {why}\n");
        let mut broken = Response::new(Full::from(text).map_err(|never| match never {}).boxed_unsync());
        *broken.status_mut() = hyper::StatusCode::INTERNAL_SERVER_ERROR;
        broken
    })
}

fn in_pieces(pieces: Vec<Piece>, end: End) -> Body {
    let frames = stream::unfold((VecDeque::from(pieces), end), |(mut pieces, end)| async move {
        if let Some(piece) = pieces.pop_front() {
            wait(piece.pause).await;
            return Some((Ok(Frame::data(piece.bytes)), (pieces, end)));
        }
        match end {
            End::Whole => None,
            End::Cut => {
                // Whoever reads gets what was sent before: the server flushes when it has to wait.
                tokio::task::yield_now().await;
                Some((Err(Cut), (pieces, End::Whole)))
            }
            End::Hang { ping: None } => std::future::pending().await,
            End::Hang { ping: Some((pause, bytes)) } => {
                wait(pause).await;
                Some((Ok(Frame::data(bytes.clone())), (pieces, End::Hang { ping: Some((pause, bytes)) })))
            }
        }
    });
    StreamBody::new(frames).boxed_unsync()
}

async fn wait(pause: Duration) {
    if !pause.is_zero() {
        tokio::time::sleep(pause).await;
    }
}
