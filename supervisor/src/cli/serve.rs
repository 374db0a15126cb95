//! `ukai serve`: the supervisor, until a signal drains it.

use ukai_notifier::Untold;

use super::context::Context;
use super::failure::Failure;
use super::print;
use super::signals::Signals;
use crate::host::{self, Host};
use crate::settings::Settings;

pub(crate) async fn serve(context: &Context) -> Result<u8, Failure> {
    // Whoever watches it, by whatever means, may answer.
    let settings = Settings { asks: true, ..context.settings()? };
    let (state, workers) = (settings.state_dir.display().to_string(), settings.max_workers);
    let mut signals = Signals::new()?;
    let mut host = host::host(settings).await.map_err(Failure::usage)?;
    print::note(&format!("ukai: serving {state} with up to {workers} workers; Ctrl-C stops it, jobs go on next time"));
    let failed = tokio::select! {
        _ = signals.next() => false,
        () = host.failed() => true,
    };
    if failed {
        return Err(Failure::failed(format!(
            "serving {state}: the supervisor failed, its log says how; start it again"
        )));
    }
    print::note("ukai: stopping; what runs is interrupted and goes on at the next start");
    drain(host, &mut signals).await;
    Ok(0)
}

/// Stops everything here and keeps its state. At a further signal the workers are left to notice by themselves that
/// their supervisor has gone. Answers with the sinks of alerts whose last message did not arrive.
pub(crate) async fn drain(host: Host, signals: &mut Signals) -> Untold {
    tokio::select! {
        untold = host.drain() => untold,
        _ = signals.next() => {
            print::note("ukai: not waited for; the workers end by themselves");
            Untold::new()
        }
    }
}
