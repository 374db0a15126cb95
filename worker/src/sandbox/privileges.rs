//! No privilege, and none to be gained: not by a set-uid program, not by being root.

use std::io;

use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities, set_capabilities_secure_bits,
    set_no_new_privs,
};

/// For the worker as root: it writes files of whoever owns the workdir, and keeps their owner.
const FOR_FILES: CapabilitySet =
    CapabilitySet::CHOWN.union(CapabilitySet::DAC_OVERRIDE).union(CapabilitySet::FOWNER).union(CapabilitySet::FSETID);

/// All but what it takes to write somebody's files. For a process that executes nothing any more.
pub(super) fn give_up_but_files() -> io::Result<()> {
    set_no_new_privs(true)?;
    clear_ambient_capability_set()?;
    let CapabilitySets { effective, permitted, .. } = capabilities(None)?;
    let (effective, permitted) = (effective & FOR_FILES, permitted & FOR_FILES);
    Ok(set_capabilities(None, CapabilitySets { effective, permitted, inheritable: CapabilitySet::empty() })?)
}

pub(super) fn give_up() -> io::Result<()> {
    set_no_new_privs(true)?;
    for bit in 0..CapabilitySet::all().bits().count_ones() {
        let one = CapabilitySet::from_bits_retain(1 << bit);
        // Without CAP_SETPCAP there is nothing to give up here: an ordinary user's set bounds what he has not.
        if capability_is_in_bounding_set(one).unwrap_or(false) {
            match remove_capability_from_bounding_set(one) {
                Ok(()) | Err(rustix::io::Errno::PERM | rustix::io::Errno::INVAL) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    // Root is a user like any other: what it starts gets no capabilities back. An ordinary user may not say so, and need not.
    let bits = CapabilitiesSecureBits::NO_ROOT
        | CapabilitiesSecureBits::NO_ROOT_LOCKED
        | CapabilitiesSecureBits::NO_SETUID_FIXUP
        | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED;
    match set_capabilities_secure_bits(bits) {
        Ok(()) | Err(rustix::io::Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    Ok(set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?)
}
