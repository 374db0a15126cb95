//! What can be asked of the kernel only without a safe wrapper.

#![allow(unsafe_code, reason = "each call says what it relies on")]

use std::os::fd::AsRawFd;
use std::{io, mem, ptr};

use nix::libc;

/// `LANDLOCK_CREATE_RULESET_VERSION` of linux/landlock.h.
const VERSION: libc::c_ulong = 1;

/// 0: none, or switched off.
#[must_use]
pub fn landlock_abi() -> u32 {
    // SAFETY: with this flag the kernel reads no memory of ours and makes no descriptor.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, ptr::null::<u8>(), 0_usize, VERSION) };
    u32::try_from(version).unwrap_or(0)
}

/// `ip link set lo up`.
pub(super) fn raise_loopback(socket: &impl AsRawFd) -> io::Result<()> {
    // SAFETY: all zeros is a valid `ifreq`: plain numbers and a union of them.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the kernel reads one `ifreq`, which lives until the call returns.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
