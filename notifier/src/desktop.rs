//! Alerts to the desktop, by its notification service (Desktop Notifications 1.2, over D-Bus).
//!
//! A service that hangs never answers, and one that is to be started may take two minutes: so it is asked from a thread of
//! its own, for two seconds, and after three failures in a row it is left alone for the rest of this process.

use std::path::Path;
use std::thread;
use std::time::Duration;

use notify_rust::{Notification, Urgency};
use tokio::sync::{mpsc, oneshot};
use ukai_protocol::command::quoted;

use crate::message::{Deliver, Message, Outcome};
use crate::render;

pub const NAME: &str = "desktop";
/// For one notification (spec §12).
const DEADLINE: Duration = Duration::from_secs(2);
const FAILURES_MAX: u32 = 3;
/// One message is under way at a time.
const ASKED_MAX: usize = 1;

#[derive(Debug)]
pub struct Desktop {
    /// It tells of a demo.
    demo: bool,
    thread: mpsc::Sender<Ask>,
}

#[derive(Debug)]
struct Ask {
    summary: String,
    body: String,
    urgency: Urgency,
    answer: oneshot::Sender<Result<(), String>>,
}

impl Desktop {
    /// An error says why it is not used: there is no session bus here, or no thread to ask it from.
    pub fn here(demo: bool) -> Result<Self, String> {
        let named = std::env::var_os("DBUS_SESSION_BUS_ADDRESS").is_some_and(|address| !address.is_empty());
        let usual = std::env::var_os("XDG_RUNTIME_DIR").is_some_and(|folder| Path::new(&folder).join("bus").exists());
        if !named && !usual {
            tracing::debug!(sink = NAME, "there is no session bus; it is not used");
            return Err("off: no session bus".to_owned());
        }
        let (asks, asked) = mpsc::channel(ASKED_MAX);
        // It ends when its sender is gone, or with the process: nobody waits for it.
        match thread::Builder::new().name(NAME.to_owned()).spawn(move || serve(asked)) {
            Ok(_) => Ok(Desktop { demo, thread: asks }),
            Err(error) => {
                tracing::warn!(sink = NAME, %error, "its thread could not be started; it is not used");
                Err(format!("off: its thread could not be started: {error}"))
            }
        }
    }

    async fn show(&self, message: &Message) -> Result<(), String> {
        let (summary, body) = render::desktop(message, self.demo);
        let urgent = message.entries.iter().any(|entry| render::is_bad(&entry.what));
        // What is critical stays until somebody closes it.
        let urgency = if urgent { Urgency::Critical } else { Urgency::Normal };
        let (answer, answered) = oneshot::channel();
        let ask = Ask { summary, body, urgency, answer };
        // A thread that is stuck takes nothing more.
        self.thread.try_send(ask).map_err(|_| "the last notification is still under way".to_owned())?;
        match tokio::time::timeout(DEADLINE, answered).await {
            Ok(Ok(shown)) => shown,
            Ok(Err(_)) => Err("its thread has ended".to_owned()),
            Err(_) => Err(format!("the notification service did not answer within {} s", DEADLINE.as_secs())),
        }
    }
}

impl Deliver for Desktop {
    fn name(&self) -> &'static str {
        NAME
    }

    fn cure(&self) -> String {
        let test = quoted(&["notify", "test"]);
        format!("see that a notification service runs in this session; {test} tries it again")
    }

    async fn deliver(&mut self, message: &Message) -> Outcome {
        let mut failures = 0;
        loop {
            match self.show(message).await {
                Ok(()) => return Outcome::Delivered,
                Err(why) => {
                    failures += 1;
                    if failures == FAILURES_MAX {
                        return Outcome::Dead(why);
                    }
                }
            }
        }
    }
}

fn serve(mut asked: mpsc::Receiver<Ask>) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        // Whoever asks hears that it has ended.
        Err(error) => return tracing::warn!(sink = NAME, %error, "its runtime could not be started"),
    };
    runtime.block_on(async {
        while let Some(Ask { summary, body, urgency, answer }) = asked.recv().await {
            let mut notification = Notification::new();
            notification.appname("ukai").summary(&summary).body(&body).urgency(urgency);
            let shown = tokio::time::timeout(DEADLINE, notification.show_async()).await;
            let shown = match shown {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err(format!("the notification service did not answer within {} s", DEADLINE.as_secs())),
            };
            // Whoever asked may have given up.
            let _ = answer.send(shown);
        }
    });
}
