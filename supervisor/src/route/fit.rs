//! Who could answer a request at all, before anybody is asked: the order of a job's providers, and the hard filters.

#![deny(clippy::disallowed_methods)]

use ukai_protocol::lease::Ask;

use crate::settings::Provider;

/// A window that leaves less than this for the reply does not fit.
const REPLY_TOKENS_MIN: u64 = 256;

/// What a job wants of its provider, from its spec and policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// Only this one.
    pub provider: Option<String>,
    pub model: Option<String>,
    /// Ids in the order to try; empty = the order of the configuration.
    pub priority: Vec<String>,
}

/// The ids a job may be sent to, in its order.
pub fn candidates(providers: &[Provider], wants: &Wants) -> Vec<usize> {
    let all = 0..providers.len();
    let mut order: Vec<usize> = match &wants.provider {
        Some(pinned) => all.filter(|index| providers[*index].id == *pinned).collect(),
        None if wants.priority.is_empty() => all.collect(),
        None => {
            let place = |index: &usize| wants.priority.iter().position(|id| *id == providers[*index].id);
            let mut named: Vec<usize> = all.filter(|index| place(index).is_some()).collect();
            named.sort_by_key(place);
            named
        }
    };
    // A model's name means something to its own provider only.
    if let Some(model) = &wants.model
        && wants.provider.is_none()
    {
        let own: Vec<usize> = order.iter().copied().filter(|index| providers[*index].model == *model).collect();
        if own.is_empty() {
            order.truncate(1);
        } else {
            order = own;
        }
    }
    order
}

pub fn output(provider: &Provider, asked: u64) -> u64 {
    if asked == 0 { provider.max_output } else { asked.min(provider.max_output) }
}

/// Why a provider cannot answer a request at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    NoTools,
    /// Tokens of the request, and of the provider's window.
    TooSmall {
        window: u64,
        holds: u64,
    },
}

pub fn unfit_for(provider: &Provider, ask: &Ask) -> Option<Unfit> {
    if ask.tools && provider.supports_tools == Some(false) {
        return Some(Unfit::NoTools);
    }
    // A reply may be shorter than the largest, not shorter than a few lines.
    let reply = output(provider, ask.max_output).min(REPLY_TOKENS_MIN);
    let (window, holds) = (ask.window, provider.context_window);
    (window.saturating_add(reply) > holds).then_some(Unfit::TooSmall { window, holds })
}

pub fn no_candidate(wants: &Wants) -> String {
    match &wants.provider {
        Some(pinned) => {
            format!("provider `{pinned}` is not configured: add a [[provider]] with this id, or name another")
        }
        None => "no configured provider stands in `provider_priority`".to_owned(),
    }
}
