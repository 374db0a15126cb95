//! Waiting for something that another process does: looked for often, given up late.

use std::time::{Duration, Instant};

/// Long enough for a machine under load; a test that needs it all has failed anyway.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Calls `look` until it finds something.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited {} s for {what}", PATIENCE.as_secs());
        std::thread::sleep(Duration::from_millis(5));
    }
}
