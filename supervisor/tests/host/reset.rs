//! Believing in a provider again: whoever is told that it is done finds it so after a crash, too.

use ukai_protocol::disk::fault::{Effect, Fault, Operation, inject};

use super::*;

/// A disk that takes its time.
const SLOW: Duration = Duration::from_millis(400);

#[tokio::test]
async fn a_reset_is_answered_when_it_is_on_disk_and_refused_when_it_cannot_be() {
    let bench = Bench::new(|_| {}).await;
    let mut client = bench.client().await;
    let reset = || Request::ResetProviders { ids: vec!["lab".into()], forget_wait: true };
    let disk = |effect| {
        let under = bench.settings.state_dir.join("supervisor/routes.json");
        inject(Fault { under, operation: Operation::Replace, skip: 0, times: 1, effect })
    };
    let slow = disk(Effect::Call(Arc::new(|| std::thread::sleep(SLOW))));
    let began = Instant::now();
    let answered = client.ask(reset()).await;
    assert!(matches!(&answered, Response::Providers { rows } if rows.len() == 1), "{answered:?}");
    assert!(began.elapsed() >= SLOW, "{:?}: it was answered before it was written", began.elapsed());
    drop(slow);
    let full = disk(Effect::Fail(nix::libc::ENOSPC));
    let answered = client.ask(reset()).await;
    let Response::Refused { why, .. } = answered else { panic!("{answered:?}") };
    assert!(why.contains("lab: reset in this server") && why.contains("No space"), "{why}");
    drop(full);
    let answered = client.ask(reset()).await;
    assert!(matches!(&answered, Response::Providers { rows } if rows.len() == 1), "{answered:?}");
    bench.end().await;
}
