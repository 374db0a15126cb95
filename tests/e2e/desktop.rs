//! A real notification at a real notification service, on a session bus of the test's own; and a desktop that shows nothing
//! slows nobody (spec §12).

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use ukai_tests::discord::Receiver;
use ukai_tests::home::Home;
use zbus::OwnedVariant;

struct Bus {
    daemon: Child,
    address: String,
}

impl Bus {
    fn start() -> Bus {
        let mut daemon = Command::new("dbus-daemon")
            .args(["--session", "--nofork", "--nopidfile", "--print-address=1"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("dbus-daemon runs");
        let mut address = String::new();
        let stdout = daemon.stdout.take().expect("its stdout is a pipe");
        BufReader::new(stdout).read_line(&mut address).expect("it says its address");
        Bus { daemon, address: address.trim().to_owned() }
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        self.daemon.kill().expect("it can be ended");
        self.daemon.wait().expect("it ends");
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Shown {
    app: String,
    summary: String,
    body: String,
}

/// `org.freedesktop.Notifications`, as far as it is asked.
struct Service {
    shown: Arc<Mutex<Vec<Shown>>>,
    hangs: bool,
}

#[zbus::interface(name = "org.freedesktop.Notifications")]
impl Service {
    #[allow(clippy::too_many_arguments)]
    async fn notify(
        &self,
        app: String,
        _replaces: u32,
        _icon: String,
        summary: String,
        body: String,
        _actions: Vec<String>,
        _hints: std::collections::HashMap<String, OwnedVariant>,
        _timeout: i32,
    ) -> u32 {
        self.shown.lock().expect("a lock").push(Shown { app, summary, body });
        if self.hangs {
            std::future::pending::<()>().await;
        }
        1
    }

    fn get_capabilities(&self) -> Vec<String> {
        vec!["body".to_owned(), "body-markup".to_owned()]
    }

    fn get_server_information(&self) -> (String, String, String, String) {
        ("test".to_owned(), "ukai".to_owned(), "1".to_owned(), "1.2".to_owned())
    }
}

type Seen = Arc<Mutex<Vec<Shown>>>;

/// On a thread of its own, until the test ends.
fn serve(bus: &Bus, hangs: bool) -> Seen {
    let shown = Seen::default();
    let service = Service { shown: shown.clone(), hangs };
    let (address, (ready, is_ready)) = (bus.address.clone(), std::sync::mpsc::channel());
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let _connection = zbus::connection::Builder::address(address.as_str())
                .name("org.freedesktop.Notifications")
                .serve_at("/org/freedesktop/Notifications", service)
                .build()
                .await
                .expect("it is on the bus");
            ready.send(()).expect("the test waits");
            std::future::pending::<()>().await;
        });
    });
    is_ready.recv().expect("the service is there");
    shown
}

/// How `ukai notify test` says that the desktop fared.
fn tested(home: &Home, bus: Option<&str>) -> (Option<Value>, Duration) {
    let mut command = home.command(&["notify", "test", "--output", "json"]);
    if let Some(address) = bus {
        command.env("DBUS_SESSION_BUS_ADDRESS", address);
    }
    let began = Instant::now();
    let output = command.output().expect("ukai runs");
    let took = began.elapsed();
    let rows: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    (rows.as_array().expect("rows").iter().find(|row| row["sink"] == "desktop").cloned(), took)
}

#[test]
fn a_notification_arrives_at_a_real_service() {
    let (home, bus) = (Home::new(), Bus::start());
    let shown = serve(&bus, false);
    let (row, _) = tested(&home, Some(&bus.address));
    assert_eq!(row.expect("it is used")["ok"], true);
    let shown = shown.lock().expect("a lock").clone();
    assert_eq!(shown.len(), 1, "{shown:?}");
    assert_eq!((shown[0].app.as_str(), shown[0].summary.as_str()), ("ukai", "ukai: a test"));
    assert!(shown[0].body.contains("arrive here"), "{shown:?}");
}

#[test]
fn without_a_bus_a_service_or_an_answer_it_says_so_and_is_over_soon() {
    let home = Home::new();
    let off = tested(&home, None).0.expect("a row");
    assert!(off["ok"].is_null() && off["why"] == "off: no session bus", "{off}");
    let (row, took) = tested(&home, Some("unix:path=/does/not/exist"));
    assert_eq!(row.expect("it is used")["ok"], false);
    assert!(took < Duration::from_secs(10), "{took:?}");
    let bus = Bus::start();
    let (row, took) = tested(&home, Some(&bus.address));
    assert_eq!(row.expect("it is used")["ok"], false, "a bus without a service");
    assert!(took < Duration::from_secs(10), "{took:?}");
    let shown = serve(&bus, true);
    let (row, took) = tested(&home, Some(&bus.address));
    assert_eq!(row.expect("it is used")["ok"], false, "a service that hangs");
    assert!(took < Duration::from_secs(15), "{took:?}");
    assert!(!shown.lock().expect("a lock").is_empty(), "it was asked");
}

#[test]
fn a_job_runs_as_ever_beside_a_service_that_hangs() {
    let (home, _script) = Home::with_script(&crate::scripts::steps(6));
    home.file("notes.txt", &crate::scripts::notes());
    let bus = Bus::start();
    let shown = serve(&bus, true);
    let discord = Receiver::start();
    let mut command = home.command(&["run", "look", "--limit", "steps=5", "--output", "json"]);
    command.env("UKAI_DISCORD_WEBHOOK", discord.url());
    let output = command.env("DBUS_SESSION_BUS_ADDRESS", &bus.address).output().expect("ukai runs");
    let result: Value = serde_json::from_slice(&output.stdout).expect("a result");
    assert_eq!(
        (output.status.code(), &result["steps"], &result["restarts"]),
        (Some(4), &5.into(), &0.into()),
        "{result}"
    );
    assert!(!shown.lock().expect("a lock").is_empty(), "that it aborted was to be told");
    assert_eq!(discord.delivered().len(), 1, "Discord does not wait for it");
    assert!(result["duration_ms"].as_u64().is_some_and(|ms| ms < 2_000), "the job did not wait for it: {result}");
}
