//! What can be asked of the kernel only without a safe wrapper.

#![allow(unsafe_code, reason = "each call says what it relies on")]

use std::ffi::CString;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
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

/// `mount_setattr`: this mount, and with `recursive` all below it, becomes read-only or writable.
pub(super) fn set_read_only(path: &Path, read_only: bool, recursive: bool) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| io::Error::other("a NUL in a path"))?;
    // SAFETY: all zeros is a valid `mount_attr`: four numbers.
    let mut attributes: libc::mount_attr = unsafe { mem::zeroed() };
    match read_only {
        true => attributes.attr_set = libc::MOUNT_ATTR_RDONLY,
        false => attributes.attr_clr = libc::MOUNT_ATTR_RDONLY,
    }
    let flags = if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the kernel reads the path and as many bytes of the attributes as it is told; both live until the call returns.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            flags,
            &raw const attributes,
            mem::size_of::<libc::mount_attr>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
