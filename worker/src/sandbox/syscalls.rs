//! seccomp: sockets, and the calls by which a process could see, hold or become another, or undo what confines it.
//!
//! A list of what is forbidden and not of what is allowed: compilers, browsers and databases run in here, and what the
//! files layer closes needs no second lock. Forbidden calls fail as on a system that does not have them.

use std::collections::BTreeMap;
use std::io;

use nix::libc;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    sock_filter,
};

use ukai_protocol::policy::Network;

/// Calls that no command needs, with any arguments.
const FORBIDDEN: [i64; 42] = [
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_perf_event_open,
    // Another view of the files.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_quotactl,
    // Other namespaces.
    libc::SYS_unshare,
    libc::SYS_setns,
    // What goes past seccomp, or has been the way out before.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // The machine.
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_syslog,
];

/// Linux 6.6; the same number on every architecture.
const SYS_FCHMODAT2: i64 = 452;

const NAMESPACE_FLAGS: u64 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP) as u64;

/// Installs the filter. No privilege is to be had any more when this is called.
pub(super) fn forbid(network: Network, has_namespaces: bool) -> io::Result<()> {
    let failed = |error: &dyn std::fmt::Display| io::Error::other(format!("seccomp: {error}"));
    seccompiler::apply_filter(&program(network, has_namespaces, libc::EPERM).map_err(|error| failed(&error))?)
        .map_err(|error| failed(&error))?;
    // A filter has one answer: what is to look as if the kernel did not know it is a second one.
    seccompiler::apply_filter(&unknown_calls(&[libc::SYS_clone3, libc::SYS_openat2]).map_err(|error| failed(&error))?)
        .map_err(|error| failed(&error))
}

/// The same for the worker, which has nothing left to execute, to fork or to listen for.
pub(super) fn forbid_to_worker() -> io::Result<()> {
    let failed = |error: &dyn std::fmt::Display| io::Error::other(format!("seccomp: {error}"));
    seccompiler::apply_filter(&workers_program().map_err(|error| failed(&error))?).map_err(|error| failed(&error))?;
    seccompiler::apply_filter(&unknown_calls(&[libc::SYS_clone3]).map_err(|error| failed(&error))?)
        .map_err(|error| failed(&error))
}

fn workers_program() -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules = for_all()?;
    let listening = [libc::SYS_listen, libc::SYS_accept, libc::SYS_accept4];
    for call in listening.into_iter().chain([libc::SYS_execve, libc::SYS_execveat]) {
        rules.insert(call, Vec::new());
    }
    #[cfg(target_arch = "x86_64")]
    for call in [libc::SYS_fork, libc::SYS_vfork] {
        rules.insert(call, Vec::new());
    }
    // What is no thread is a process.
    let is_process =
        SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(libc::CLONE_THREAD as u64), 0)?;
    rules.entry(libc::SYS_clone).or_default().push(SeccompRule::new(vec![is_process])?);
    // Its supervisor, its provider, and whoever knows the addresses of names.
    let families = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    rules.insert(libc::SYS_socket, vec![domain_is_not(&families)?]);
    compiled(rules, libc::EPERM)
}

/// Whoever executes a file with such a bit becomes its owner, and what a command leaves can be executed by anybody on this
/// machine. The flags of a mount hold inside of it alone. For folders the bit that hands on a group is denied with it: of a
/// name, a filter cannot know what lies there.
fn no_privileged_files(rules: &mut Rules) -> Result<(), seccompiler::BackendError> {
    let has = |argument, bits: u32| {
        let bits = u64::from(bits);
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(bits), bits)
    };
    // Where a file is opened, and in no other case, the mode is an argument at all.
    let creates = [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY].map(i32::cast_unsigned);
    let mut deny = |call: i64, mode: u8, flags: Option<u8>| {
        for bit in [libc::S_ISUID, libc::S_ISGID] {
            let rules = rules.entry(call).or_default();
            match flags {
                None => rules.push(SeccompRule::new(vec![has(mode, bit)?])?),
                Some(flags) => {
                    for create in creates {
                        rules.push(SeccompRule::new(vec![has(flags, create)?, has(mode, bit)?])?);
                    }
                }
            }
        }
        Ok::<_, seccompiler::BackendError>(())
    };
    deny(libc::SYS_fchmod, 1, None)?;
    deny(libc::SYS_fchmodat, 2, None)?;
    deny(SYS_FCHMODAT2, 2, None)?;
    deny(libc::SYS_mknodat, 2, None)?;
    deny(libc::SYS_openat, 3, Some(2))?;
    #[cfg(target_arch = "x86_64")]
    {
        deny(libc::SYS_chmod, 1, None)?;
        deny(libc::SYS_creat, 1, None)?;
        deny(libc::SYS_mknod, 1, None)?;
        deny(libc::SYS_open, 2, Some(1))?;
    }
    // Devices, of which a command needs none.
    let mut no_device = |call: i64, mode: u8| {
        for kind in [libc::S_IFCHR, libc::S_IFBLK] {
            let is = SeccompCondition::new(
                mode,
                SeccompCmpArgLen::Dword,
                SeccompCmpOp::MaskedEq(u64::from(libc::S_IFMT)),
                u64::from(kind),
            )?;
            rules.entry(call).or_default().push(SeccompRule::new(vec![is])?);
        }
        Ok::<_, seccompiler::BackendError>(())
    };
    no_device(libc::SYS_mknodat, 2)?;
    #[cfg(target_arch = "x86_64")]
    no_device(libc::SYS_mknod, 1)?;
    Ok(())
}

fn program(network: Network, has_namespaces: bool, errno: i32) -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules = for_all()?;
    // A path of a Unix socket is outside of Landlock: whoever listens there (docker, an agent of keys) acts for its owner.
    match network {
        Network::Off => rules.insert(libc::SYS_socket, Vec::new()),
        Network::Loopback | Network::On => {
            rules.insert(libc::SYS_socket, vec![domain_is_not(&[libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK])?])
        }
    };
    if !has_namespaces {
        // What others are named by, and what outlives its maker.
        for call in [libc::SYS_shmget, libc::SYS_semget, libc::SYS_msgget, libc::SYS_mq_open] {
            rules.insert(call, Vec::new());
        }
        for call in [
            libc::SYS_sched_setaffinity,
            libc::SYS_sched_setscheduler,
            libc::SYS_sched_setparam,
            libc::SYS_sched_setattr,
        ] {
            rules.insert(call, vec![not_itself(0)?]);
        }
    }
    no_privileged_files(&mut rules)?;
    compiled(rules, errno)
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// What commands and worker have in common.
fn for_all() -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = FORBIDDEN.into_iter().map(|call| (call, Vec::new())).collect();
    // A pair has no address.
    rules.insert(libc::SYS_socketpair, vec![domain_is_not(&[libc::AF_UNIX])?]);
    let flag = |argument| {
        // Any of the bits: a rule for each.
        let bits = (0..32).map(|bit| 1_u64 << bit).filter(|bit| NAMESPACE_FLAGS & bit != 0);
        let conditions = bits.map(move |bit| {
            SeccompRule::new(vec![SeccompCondition::new(
                argument,
                SeccompCmpArgLen::Qword,
                SeccompCmpOp::MaskedEq(bit),
                bit,
            )?])
        });
        conditions.collect::<Result<Vec<_>, _>>()
    };
    rules.insert(libc::SYS_clone, flag(0)?);
    let ioctl = |request: u64| {
        SeccompRule::new(vec![SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, request)?])
    };
    // Of itself a process may ask and lower its limits, of no other: a limit of processor time kills. Its init it could
    // leave without descriptors.
    rules.insert(libc::SYS_prlimit64, vec![not_itself(0)?]);
    rules.insert(libc::SYS_setpriority, vec![not_itself(1)?]);
    rules.insert(libc::SYS_ioprio_set, vec![not_itself(1)?]);
    // Typing into the terminal of somebody else.
    rules.insert(libc::SYS_ioctl, vec![ioctl(libc::TIOCSTI)?, ioctl(libc::TIOCLINUX)?]);
    Ok(rules)
}

fn domain_is_not(domains: &[i32]) -> Result<SeccompRule, seccompiler::BackendError> {
    let conditions = domains.iter().map(|domain| {
        let domain = u64::try_from(*domain).unwrap_or(u64::MAX);
        SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, domain)
    });
    SeccompRule::new(conditions.collect::<Result<Vec<_>, _>>()?)
}

fn not_itself(argument: u8) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(vec![SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, 0)?])
}

fn compiled(rules: Rules, errno: i32) -> Result<BpfProgram, seccompiler::BackendError> {
    let errno = SeccompAction::Errno(errno.cast_unsigned());
    let arch = std::env::consts::ARCH.try_into()?;
    let filter: BpfProgram = SeccompFilter::new(rules, SeccompAction::Allow, errno, arch)?.try_into()?;
    Ok(without_x32(filter))
}

/// clone3 and openat2 hide their flags from a filter; a library that hears that there is none uses clone and openat.
fn unknown_calls(calls: &[i64]) -> Result<BpfProgram, seccompiler::BackendError> {
    let rules = calls.iter().map(|call| (*call, Vec::new())).collect();
    let errno = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
    SeccompFilter::new(rules, SeccompAction::Allow, errno, std::env::consts::ARCH.try_into()?)?.try_into()
}

/// On x86-64 each call has a second number (the x32 ABI, same architecture to the filter), which would pass all of it.
fn without_x32(program: BpfProgram) -> BpfProgram {
    if std::env::consts::ARCH != "x86_64" {
        return program;
    }
    const X32: u32 = 0x4000_0000;
    // linux/bpf_common.h: load a word, jump if greater or equal, return.
    const LOAD: u16 = 0x20;
    const JUMP_IF_GE: u16 = 0x35;
    const RETURN: u16 = 0x06;
    let errno = 0x0005_0000 | libc::ENOSYS.cast_unsigned();
    let mut guarded = vec![
        sock_filter { code: LOAD, jt: 0, jf: 0, k: 0 },
        sock_filter { code: JUMP_IF_GE, jt: 0, jf: 1, k: X32 },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: errno },
    ];
    guarded.extend(program);
    guarded
}
