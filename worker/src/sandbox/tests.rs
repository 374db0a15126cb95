//! What a worker can still do when it has confined itself. Landlock and seccomp hold for a thread: each test gives one up.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{TcpListener, TcpStream, ToSocketAddrs as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Barrier;

use super::*;

/// Runs this as a worker would run, and hands its findings out.
fn confined<T: Send>(reach: &Reach, then: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            assert_eq!(confine_worker(reach).expect("it is confined"), [""; 0]);
            // What it starts is as confined as it is.
            std::thread::scope(|inner| inner.spawn(then).join())
        });
        thread.join().expect("a thread").expect("a thread of it")
    })
}

fn kind<T>(result: io::Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

#[test]
fn a_worker_opens_its_roots_and_nothing_else() {
    if landlock_abi() < LANDLOCK_ABI_MIN {
        return;
    }
    let temp = tempfile::tempdir().expect("a folder");
    let top = temp.path().canonicalize().expect("a path");
    for folder in ["work/sub", "run/outputs", "run/tmp/left", "other", ".ssh", "rules", "later"] {
        fs::create_dir_all(top.join(folder)).expect("folders");
    }
    for file in ["work/sub/a", "run/events.jsonl", "other/events.jsonl", ".ssh/id", "rules/a", "rules/b", "ukai.toml"] {
        fs::write(top.join(file), "text").expect("a file");
    }
    std::os::unix::fs::symlink(top.join(".ssh/id"), top.join("work/link")).expect("a link");
    let at = |name: &str| top.join(name);
    let reach = Reach {
        read: vec![at("rules/a"), at("not/there")],
        write: vec![at("work"), at("run/outputs"), at("run/tmp")],
        remove_folders_in: Some(at("run")),
        ports: Vec::new(),
    };
    let denied = Some(ErrorKind::PermissionDenied);
    confined(&reach, || {
        for (path, expected) in [
            ("work/sub/a", None),
            ("rules/a", None),
            ("rules/b", denied),
            ("work/link", denied),
            ("run/events.jsonl", denied),
            ("other/events.jsonl", denied),
            (".ssh/id", denied),
            ("ukai.toml", denied),
            ("nowhere", Some(ErrorKind::NotFound)),
        ] {
            assert_eq!(kind(fs::read(at(path))), expected, "reading {path}");
        }
        for (path, expected) in [
            ("work/new", None),
            ("work/sub/a", None),
            ("run/outputs/new", None),
            ("rules/a", denied),
            ("run/new", denied),
            ("run/events.jsonl", denied),
            ("other/new", denied),
            ("new", denied),
        ] {
            assert_eq!(kind(fs::write(at(path), "x")), expected, "writing {path}");
        }
        for (path, expected) in
            [("work", None), ("run/outputs", None), (".", denied), ("run", denied), ("other", denied), ("/etc", denied)]
        {
            assert_eq!(kind(fs::read_dir(at(path))), expected, "listing {path}");
        }
        // As writing does it: beside, then in its place; a folder for it, synced.
        fs::create_dir_all(at("work/x/y")).expect("made");
        fs::write(at("work/x/y/.tmp"), "new").expect("written");
        fs::rename(at("work/x/y/.tmp"), at("work/x/y/file")).expect("renamed");
        fs::File::open(at("work/x/y")).and_then(|folder| folder.sync_all()).expect("synced");
        assert_eq!(kind(fs::rename(at("work/new"), at("later/new"))), denied, "out of the roots");
        assert!(fs::hard_link(at(".ssh/id"), at("work/id")).is_err(), "into the roots");
        // Of a job's folder the temporary one may go, with what is in it.
        fs::remove_dir_all(at("run/tmp")).expect("removed");
        assert_eq!(kind(fs::create_dir(at("run/tmp"))), denied);
        assert_eq!(kind(fs::remove_file(at("run/events.jsonl"))), denied);
        // What is everybody's.
        for path in ["/etc/nsswitch.conf", "/etc/hosts", "/proc/self/status", "/dev/urandom"] {
            let opened = fs::File::open(path);
            assert!(opened.is_ok() || !Path::new(path).exists(), "{path}: {opened:?}");
        }
        for path in ["/etc/shadow", "/proc/1/environ", "/proc/1/cmdline"] {
            assert!(fs::read(path).is_err(), "{path}");
        }
        assert_eq!(fs::read_link("/proc/self/fd/0").map(|_| ()).map_err(|error| error.kind()), Ok(()));
    });
}

#[test]
fn a_worker_connects_to_its_ports_and_to_its_socket() {
    let temp = tempfile::tempdir().expect("a folder");
    let path = temp.path().join("socket");
    let [ours, other] = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").expect("bound"));
    let [ours_at, other_at] = [&ours, &other].map(|listener| listener.local_addr().expect("an address"));
    let first = UnixListener::bind(&path).expect("bound");
    let reach = Reach { ports: vec![ours_at.port()], ..Reach::default() };
    let holds_ports = landlock_abi() >= 4;
    let (gone, came) = (Barrier::new(2), Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // As the next supervisor makes it anew.
            gone.wait();
            drop(first);
            fs::remove_file(&path).expect("removed");
            let _second = UnixListener::bind(&path).expect("bound");
            came.wait();
            gone.wait();
        });
        confined(&reach, || {
            assert_eq!(kind(TcpStream::connect(ours_at)), None);
            let expected = Some(ErrorKind::PermissionDenied).filter(|_| holds_ports);
            assert_eq!(kind(TcpStream::connect(other_at)), expected);
            assert!(TcpListener::bind("127.0.0.1:0").is_err(), "a worker listens nowhere");
            assert_eq!(kind(UnixStream::connect(&path)), None);
            gone.wait();
            came.wait();
            assert_eq!(kind(UnixStream::connect(&path)), None, "the next one, at the same place");
            gone.wait();
            // Names are still found.
            assert!("localhost:80".to_socket_addrs().is_ok_and(|mut found| found.next().is_some()));
        });
    });
}

#[test]
fn a_worker_executes_and_forks_nothing() {
    confined(&Reach::default(), || {
        // The one way to start a process here; the error says that it was not even forked.
        let started = ukai_protocol::process::start(ukai_protocol::process::Start {
            program: "/bin/true".into(),
            args: Vec::new(),
            env: Vec::new(),
            workdir: None,
            stdin: ukai_protocol::process::Stdin::Null,
            stdout: std::process::Stdio::null(),
            stderr: std::process::Stdio::null(),
        });
        assert_eq!(kind(started), Some(ErrorKind::PermissionDenied));
        assert!(nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWUSER).is_err());
        let status = fs::read_to_string("/proc/thread-self/status").expect("its status");
        let of = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim).map(str::to_owned);
        assert_eq!(of("NoNewPrivs:").as_deref(), Some("1"));
        assert_eq!(of("Seccomp:").as_deref(), Some("2"));
        // CHOWN, DAC_OVERRIDE, FOWNER, FSETID at most.
        let kept = u64::from_str_radix(&of("CapEff:").expect("a mask"), 16).expect("a number");
        assert_eq!(kept & !0b1_1011, 0, "{kept:x}");
    });
}
