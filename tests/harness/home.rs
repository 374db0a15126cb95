//! A home folder of one test's own: configuration, state, runtime directory, a working folder.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::script::Script;
use crate::wait;

pub struct Home {
    root: TempDir,
    program: PathBuf,
    /// What starts it, if not we: another user, a kernel that grants less.
    through: Vec<String>,
}

impl Home {
    /// Empty but for `work/`, the folder in which commands run.
    #[must_use]
    pub fn new() -> Home {
        let root = tempfile::Builder::new().prefix("ukai-test-").tempdir().expect("a temporary folder");
        for folder in ["work", "config/ukai", "state", "run"] {
            std::fs::create_dir_all(root.path().join(folder)).expect("a folder");
        }
        Home { root, program: crate::binary("ukai-under-test"), through: Vec::new() }
    }

    /// From now on `ukai` finds this shell script where it looks for its worker.
    pub fn worker_is(&mut self, script: &str) {
        let program = self.path().join("ukai");
        // A link where it can be one: the program is large.
        let linked = std::fs::hard_link(&self.program, &program);
        linked.or_else(|_| std::fs::copy(&self.program, &program).map(drop)).expect("a copy of ukai");
        let worker = self.path().join("ukai-worker");
        std::fs::write(&worker, format!("#!/bin/sh\n{script}\n")).expect("a worker");
        std::fs::set_permissions(&worker, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("its mode");
        self.program = program;
    }

    /// From now on `ukai` runs as an ordinary user: as whoever runs the tests, or in root's place as nobody.
    pub fn as_ordinary_user(&mut self) {
        if !nix::unistd::geteuid().is_root() {
            return;
        }
        const NOBODY: &str = "65534";
        // Where the tests are built, an ordinary user may not look.
        let programs = self.path().join("bin");
        std::fs::create_dir(&programs).expect("a folder");
        for (ours, name) in [("ukai-under-test", "ukai"), ("ukai-under-test-worker", "ukai-worker")] {
            std::fs::copy(crate::binary(ours), programs.join(name)).expect("a copy");
        }
        self.program = programs.join("ukai");
        let owned = Command::new("chown").args(["-R", &format!("{NOBODY}:{NOBODY}")]).arg(self.path()).status();
        assert!(owned.expect("chown runs").success());
        let user = ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--inh-caps=-all"];
        self.through = user.map(str::to_owned).to_vec();
    }

    /// From now on `ukai` runs as the tests do, on their kernel.
    pub fn as_whoever_tests(&mut self) {
        self.through.clear();
    }

    /// From now on the kernel grants `ukai` no namespaces.
    pub fn without_namespaces(&mut self) {
        let shell = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
        self.through = ["unshare", "--user", "--map-root-user", "sh", "-c", shell, "sh"].map(str::to_owned).to_vec();
    }

    /// From now on `ukai` runs on a kernel without Landlock, and perhaps without namespaces.
    pub fn on_an_old_kernel(&mut self, has_namespaces: bool) {
        self.through = vec![crate::binary("old-kernel").display().to_string()];
        if !has_namespaces {
            self.through.push("--without-namespaces".to_owned());
        }
    }

    /// With one provider, `lab`, that plays `script`.
    #[must_use]
    pub fn with_script(toml: &str) -> (Home, Script) {
        let home = Home::new();
        let script = Script::serve(home.path(), toml);
        home.configure(&lab(&script, "openai"));
        (home, script)
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.path().join("work")
    }

    /// Writes a file below the working folder.
    pub fn file(&self, name: &str, text: &str) {
        let path = self.work().join(name);
        std::fs::create_dir_all(path.parent().expect("it is below work")).expect("its folder");
        std::fs::write(path, text).expect("a file");
    }

    pub fn configure(&self, toml: &str) {
        std::fs::write(self.path().join("config/ukai/ukai.toml"), toml).expect("the configuration");
    }

    #[must_use]
    pub fn state_dir(&self) -> PathBuf {
        self.path().join("state/ukai")
    }

    /// The command, in this home and nothing else of the environment.
    #[must_use]
    pub fn command(&self, args: &[&str]) -> Command {
        let whole: Vec<OsString> =
            self.through.iter().map(OsString::from).chain([self.program.clone().into()]).collect();
        let mut command = Command::new(&whole[0]);
        command
            .args(&whole[1..])
            .args(args)
            .current_dir(self.work())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path())
            .env("XDG_CONFIG_HOME", self.path().join("config"))
            .env("XDG_STATE_HOME", self.path().join("state"))
            .env("XDG_RUNTIME_DIR", self.path().join("run"))
            .stdin(Stdio::null());
        command
    }

    /// Runs to the end.
    #[must_use]
    pub fn ukai(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("ukai runs")
    }

    /// Runs to the end and reads the last line of its stdout.
    #[must_use]
    pub fn ukai_json(&self, args: &[&str]) -> (i32, Value) {
        let output = self.ukai(args);
        let stdout = String::from_utf8_lossy(&output.stdout);
        let last = stdout.lines().last().unwrap_or_default();
        let value = serde_json::from_str(last).unwrap_or_else(|error| {
            panic!("{args:?} printed {stdout:?} ({error})\n{}", String::from_utf8_lossy(&output.stderr))
        });
        (output.status.code().unwrap_or(-1), value)
    }

    /// A server in this home, until dropped.
    #[must_use]
    pub fn serve(&self) -> Server {
        let log = std::fs::File::create(self.path().join("serve.log")).expect("a log file");
        let child = self.command(&["serve"]).stdout(Stdio::null()).stderr(log).spawn().expect("ukai serves");
        let server = Server { child };
        wait::until("the server to listen", || {
            // A file alone may be what a killed server left.
            let mut sockets = std::fs::read_dir(self.path().join("run/ukai")).ok()?.flatten();
            sockets.any(|socket| std::os::unix::net::UnixStream::connect(socket.path()).is_ok()).then_some(())
        });
        server
    }

    /// The ids of all runs, in no order.
    #[must_use]
    pub fn runs(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.state_dir().join("runs")) else { return Vec::new() };
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    /// The log of a run, as it is on disk: whole lines only.
    #[must_use]
    pub fn events(&self, id: &str) -> Vec<Value> {
        let path = self.state_dir().join("runs").join(id).join("events.jsonl");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.map(|line| serde_json::from_str(line).expect("an event is a JSON line")).collect()
    }

    /// How often an event stands in a run's log.
    #[must_use]
    pub fn count(&self, id: &str, event: &str) -> usize {
        self.events(id).iter().filter(|record| record["event"] == event).count()
    }

    /// Those of [`Home::processes`] that are workers: each has a tool host below it.
    #[must_use]
    pub fn workers(&self) -> Vec<u32> {
        let all = self.processes();
        let parent = |pid: &u32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse::<u32>().ok()
        };
        all.iter().filter(|pid| parent(pid).is_some_and(|parent| !all.contains(&parent))).copied().collect()
    }

    /// Live processes of this home: every one whose command line or environment names it.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        let mark = self.path().as_os_str().as_encoded_bytes().to_vec();
        let names = |file: PathBuf| {
            std::fs::read(file).is_ok_and(|bytes| bytes.windows(mark.len()).any(|window| window == mark))
        };
        let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.filter(|pid| {
            let folder = PathBuf::from(format!("/proc/{pid}"));
            let job = std::fs::read(folder.join("cmdline")).is_ok_and(|line| line.windows(5).any(|w| w == b"\0job\0"));
            job && (names(folder.join("cmdline")) || names(folder.join("environ")))
        })
        .collect()
    }
}

impl Default for Home {
    fn default() -> Self {
        Home::new()
    }
}

/// A `[[provider]]` table for a script.
#[must_use]
pub fn lab(script: &Script, wire: &str) -> String {
    let base = match wire {
        "openai" => format!("{}/v1", script.url),
        _ => script.url.clone(),
    };
    format!(
        "[[provider]]\nid = \"lab\"\nwire = \"{wire}\"\nbase_url = \"{base}\"\nmodel = \"lab-1\"\n\
             context_window = 200000\nmax_output = 4096\n"
    )
}

/// A running `ukai serve`; ended hard when dropped.
pub struct Server {
    pub child: std::process::Child,
}

impl Server {
    /// SIGKILL, as the machine's OOM killer would.
    pub fn kill(&mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it is gone");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGTERM first, so that workers end with it.
        let pid = nix::unistd::Pid::from_raw(self.child.id().cast_signed());
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
            let _ = self.child.wait();
        }
    }
}
