//! Who belongs to a call: whatever it started, and whatever that started, also what detached itself.
//!
//! A child that forks twice and leaves its session comes back to the host, which is the subreaper; by its parentage
//! nothing tells any more which call it is of. The mark in its environment does. What has shed the mark belongs to
//! whichever call is being ended: it wanted not to be found.

use std::collections::{BTreeMap, BTreeSet};

use ukai_protocol::process::{self, Seen};

/// The variable that every command carries; its value is the job and the number of the call.
pub const MARK: &str = "UKAI_CALL";

/// The live processes of the call whose shell is (or was) `shell`. `others`: the shells of other calls.
#[must_use]
pub fn members(me: u32, shell: u32, mark: &str, others: &BTreeSet<u32>) -> Vec<u32> {
    let is_its = |seen: &Seen| {
        seen.pid == shell
            || (seen.parent == me
                && !others.contains(&seen.pid)
                && process::variable(seen.pid, MARK).is_none_or(|found| found == mark))
    };
    below(&process::all(), is_its)
}

/// All live processes that this one is the ancestor of.
#[must_use]
pub fn everybody(me: u32) -> Vec<u32> {
    below(&process::all(), |seen| seen.parent == me)
}

fn below(all: &[Seen], is_root: impl Fn(&Seen) -> bool) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<&Seen>> = BTreeMap::new();
    for seen in all {
        children.entry(seen.parent).or_default().push(seen);
    }
    let mut open: Vec<&Seen> = all.iter().filter(|seen| is_root(seen)).collect();
    let mut found = BTreeSet::new();
    while let Some(seen) = open.pop() {
        if found.insert(seen.pid) {
            open.extend(children.get(&seen.pid).into_iter().flatten());
        }
    }
    all.iter().filter(|seen| !seen.is_dead && found.contains(&seen.pid)).map(|seen| seen.pid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_followed_to_its_leaves_and_the_dead_are_not_in_it() {
        let seen = |pid, parent, is_dead| Seen { pid, parent, is_dead };
        let all = [seen(2, 1, false), seen(3, 2, true), seen(4, 3, false), seen(5, 1, false), seen(6, 5, false)];
        assert_eq!(below(&all, |seen| seen.pid == 2), [2, 4]);
        assert_eq!(below(&all, |seen| seen.parent == 1), [2, 4, 5, 6]);
        assert_eq!(below(&all, |_| false), [0_u32; 0]);
    }
}
