//! A notice that a limit is near is no news beside the job's end at that very limit: who reads that twenty jobs have ended
//! need not count forty things.

#![deny(clippy::disallowed_methods)]

use std::collections::BTreeMap;

use ukai_protocol::job::{Cause, CauseKind};

use super::Filter;
use super::class::Class;
use super::waiting::{Bundles, WAITING_MAX, Waiting};
use crate::alert::{Key, Kind, Source, What, limit_near};

/// Notices that are only counted, by key, with how often: those beyond the bound stay counted.
#[derive(Debug, Default)]
pub struct Notices(BTreeMap<Key, (What, u64)>);

impl Notices {
    #[must_use]
    pub fn of(what: &What, times: u64) -> Self {
        let notice = matches!(what, What::LimitNear { .. }).then(|| (what.key(), (what.clone(), times)));
        Notices(notice.into_iter().collect())
    }

    pub fn extend(&mut self, others: Notices) {
        for (key, (what, times)) in others.0 {
            if self.0.len() < WAITING_MAX || self.0.contains_key(&key) {
                let known = self.0.entry(key).or_insert((what, 0));
                known.1 = known.1.saturating_add(times);
            }
        }
    }
}

impl Filter {
    /// Takes out the notice that waits, by name or as a number, and whose place the abort takes.
    pub(super) fn take_notice(&mut self, abort: &What) -> Vec<Source> {
        let Some(key) = replaced_by(abort) else { return Vec::new() };
        if let Some(notice) = self.queue.entries.remove(&key) {
            return notice.sources;
        }
        let standing = self.accounts.all.values_mut().filter_map(|known| known.standing.as_mut());
        let mut bundles = standing.map(|standing| &mut standing.meanwhile).chain([&mut self.queue.crowd]);
        bundles.find_map(|bundles| take_out(bundles, &key)).unwrap_or_default()
    }

    /// A notice that the sink failed to take; the job may have ended meanwhile.
    pub(super) fn give_back_notice(&mut self, notice: Waiting) {
        let job = notice.what.job().map(ToString::to_string).unwrap_or_default();
        let abort = self.queue.entries.get_mut(&Key { kind: Kind::JobAborted, subject: job });
        match abort.filter(|abort| replaced_by(&abort.what).as_ref() == Some(&notice.what.key())) {
            Some(abort) => abort.sources.extend(notice.sources),
            None => self.queue.give_back(notice),
        }
    }
}

/// The key of the notice whose place this takes.
fn replaced_by(what: &What) -> Option<Key> {
    match what {
        What::JobAborted { job, cause: Cause { kind: CauseKind::Limit(limit), .. }, .. } => {
            Some(limit_near(job, *limit))
        }
        _ => None,
    }
}

/// Its sources go on with the others of its bundle, if there are others.
fn take_out(bundles: &mut Bundles, key: &Key) -> Option<Vec<Source>> {
    let bundle = bundles.get_mut(&Class::LimitNear)?;
    let (_, times) = bundle.notices.0.remove(key)?;
    bundle.count = bundle.count.saturating_sub(times);
    bundle.lost = bundle.lost.min(bundle.count);
    if bundle.count == 0 {
        return bundles.remove(&Class::LimitNear).map(|bundle| bundle.sources);
    }
    if bundle.sample.key() == *key
        && let Some((_, (other, _))) = bundle.notices.0.first_key_value()
    {
        bundle.sample = other.clone();
    }
    Some(Vec::new())
}
