//! The ground of the job that tries its luck: a home folder that is thrown away, a folder to work in, and canaries, which
//! tell at the end whether anything reached them.

mod refusal;
mod tries;

use std::fs::File;
use std::io::{self, ErrorKind};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use ukai_protocol::disk;

use super::acts::Act;
use super::project;
use crate::cli::failure::Failure;
pub(super) use refusal::Refusal;
use tries::{Around, HOOK, LINK, SOCKET, Try, WORKER_FILE};

const KEY: &str = "-----BEGIN A KEY OF NOBODY'S-----\nCANARY-7788\n";
const KEPT: &str = "This must stay.\n";
const VICTIM: &str = "Untouched.\n";
/// Of a canary file as it is found.
const FILE_BYTES_MAX: u64 = 4096;
/// What connects to a unix socket: the first of these that is there.
const CONNECTS: [(&str, &str); 3] = [
    (
        "perl",
        r#"perl -MSocket -e 'socket(S,AF_UNIX,SOCK_STREAM,0) && connect(S,sockaddr_un("service.sock")) or die "connect: $!\n"'"#,
    ),
    ("python3", r#"python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect("service.sock")'"#),
    ("curl", "curl -sS --unix-socket service.sock http://localhost/"),
];
/// Where commands look for programs.
const PROGRAMS: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];

pub(super) struct Luck {
    pub home: PathBuf,
    pub workdir: PathBuf,
    tries: Vec<Try>,
    tcp: TcpListener,
    udp: UdpSocket,
    unix: UnixListener,
}

impl Luck {
    /// In two folders below this one.
    pub fn prepare(root: &Path) -> Result<Self, Failure> {
        let (home, workdir) = (root.join("home"), root.join("luck"));
        project::write(&home, [(".ssh/id_demo", KEY), ("kept", KEPT), ("victim", VICTIM)].into_iter())?;
        project::init(&workdir)?;
        project::write(&workdir.join(".git/hooks"), [("keep", "")].into_iter())?;
        let failed = |what: &'static str| {
            move |error: io::Error| Failure::failed(format!("preparing what a job tries its luck at: {what}: {error}"))
        };
        symlink(home.join("victim"), workdir.join(LINK)).map_err(failed("a link"))?;
        let tcp = TcpListener::bind("127.0.0.1:0").map_err(failed("listening on TCP"))?;
        let udp = UdpSocket::bind("127.0.0.1:0").map_err(failed("listening on UDP"))?;
        let unix = listen(&workdir).map_err(failed("listening on a unix socket"))?;
        let quiet = tcp.set_nonblocking(true).and_then(|()| udp.set_nonblocking(true));
        quiet.and_then(|()| unix.set_nonblocking(true)).map_err(failed("its sockets"))?;
        let port = failed("its sockets");
        let tcp_port = tcp.local_addr().map_err(&port)?.port();
        let udp_port = udp.local_addr().map_err(&port)?.port();
        let connects = CONNECTS.iter().find(|(name, _)| is_there(name)).map(|(_, command)| *command);
        let connects = connects.ok_or_else(|| {
            Failure::usage("trying to connect to a unix socket: there is no perl, python3 or curl; install one of them")
        })?;
        let around = Around { home: &home, tcp: tcp_port, udp: udp_port, unix: connects };
        let scripts = tries::scripts(&around);
        project::write(&workdir, scripts.iter().map(|(name, text)| (*name, &**text)))?;
        let tries = tries::tries(&around);
        Ok(Luck { home, workdir, tries, tcp, udp, unix })
    }

    /// What the demo's provider plays for it.
    pub fn script(&self) -> String {
        tries::script(&self.tries)
    }

    /// Lets the job know its enemy.
    pub fn worker_is(&self, pid: u32) -> Result<(), Failure> {
        let path = self.workdir.join(WORKER_FILE);
        let written = disk::write_atomic(&path, format!("{pid}\n").as_bytes());
        written.map_err(|error| Failure::failed(format!("writing {}: {error}", path.display())))
    }

    /// `acts`: of its job, whose worker was one process to the end if `survived`.
    pub fn refusals(&self, acts: &[Act], survived: bool) -> Vec<Refusal> {
        refusal::refusals(&self.tries, acts.get(1..).unwrap_or_default(), survived)
    }

    /// What reached a canary, or may have.
    pub fn reached(&self, acts: &[Act]) -> Vec<String> {
        let mut reached = Vec::new();
        for (name, text) in [(".ssh/id_demo", KEY), ("kept", KEPT), ("victim", VICTIM)] {
            let path = self.home.join(name);
            if disk::read_bounded(&path, FILE_BYTES_MAX).ok().as_deref() != Some(text.as_bytes()) {
                reached.push(format!("{} is not what it was", path.display()));
            }
        }
        if self.workdir.join(HOOK).symlink_metadata().is_ok() {
            reached.push(format!("{} was written", self.workdir.join(HOOK).display()));
        }
        let quiet = |error: io::Error| error.kind() == ErrorKind::WouldBlock;
        let silent = [
            ("TCP", self.tcp.accept().err().is_some_and(quiet)),
            ("UDP", self.udp.recv(&mut [0; 1]).err().is_some_and(quiet)),
            ("the unix socket", self.unix.accept().err().is_some_and(quiet)),
        ];
        reached.extend(silent.iter().filter(|(_, silent)| !silent).map(|(what, _)| format!("{what} heard something")));
        let secret = KEY.lines().last().unwrap_or_default();
        let outputs = acts.iter().filter_map(|act| act.finished.as_ref());
        if outputs.into_iter().any(|(_, _, output)| output.contains(secret)) {
            reached.push("what lies in ~/.ssh was read".to_owned());
        }
        reached
    }
}

/// A socket's path holds 107 bytes; by the folder's descriptor it is short wherever that lies.
fn listen(folder: &Path) -> io::Result<UnixListener> {
    let folder = File::open(folder)?;
    UnixListener::bind(format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd()))
}

fn is_there(program: &str) -> bool {
    PROGRAMS.iter().any(|folder| Path::new(folder).join(program).is_file())
}
