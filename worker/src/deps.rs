//! What the query loop depends on, in one struct: the model, the clock, the tools, the policy. Tests script them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use ukai_protocol::job::Mode;
use ukai_protocol::json::Json;
use ukai_protocol::lease::Grant;
use ukai_protocol::message::Message;
use ukai_protocol::session::Welcome;

use crate::context::tokens;
use crate::http::{Http, HttpError};
use crate::permission::Permission;
use crate::provider::wire::Request;
use crate::provider::{self, Answered, Failure};
use crate::tool::registry::{self, Definition};
use crate::tool::roots::Roots;
use crate::tool::{self};

/// One attempt at a model call.
pub struct Attempt {
    pub grant: Grant,
    pub system: String,
    pub messages: Vec<Message>,
    pub cancel: CancellationToken,
    /// Called as the reply arrives; text may be empty (arguments of a call, thinking).
    pub on_delta: Box<dyn FnMut(String) + Send>,
}

pub type CallModel = Box<dyn Fn(Attempt) -> BoxFuture<'static, Result<Answered, Failure>> + Send + Sync>;

pub struct Deps {
    pub call_model: CallModel,
    pub now: fn() -> Instant,
    pub permission: Arc<Permission>,
    pub roots: Arc<Roots>,
    pub outputs: PathBuf,
    pub tools: Arc<[Definition]>,
}
