//! Whether a base URL may be asked. Only what is needed to refuse: the HTTP client parses it for real.

#![deny(clippy::disallowed_methods)]

use std::net::IpAddr;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadUrl {
    #[error("it is no http:// or https:// address")]
    Scheme,
    #[error("it names no host")]
    Host,
    #[error("its port is no number from 1 to 65535")]
    Port,
    #[error("it holds a user name or password; a key belongs into a variable or a file")]
    UserInfo,
    #[error("it holds a blank, a control character, `?` or `#`, which a base address has no use for")]
    Stray,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    pub https: bool,
    /// `localhost`, 127.0.0.0/8 or ::1: what is sent there does not leave the machine.
    pub loopback: bool,
}

/// The port that is asked at this address.
#[must_use]
pub fn port(url: &str) -> Option<u16> {
    let (https, rest) = scheme(url).ok()?;
    let (_, port) = place(rest.split(['/', '?', '#']).next()?).ok()?;
    port.map_or(Some(if https { 443 } else { 80 }), |port| port.parse().ok())
}

pub fn check(url: &str) -> Result<Checked, BadUrl> {
    let (https, rest) = scheme(url)?;
    if url.chars().any(|c| c.is_whitespace() || c.is_control() || c == '?' || c == '#' || c == '\\') {
        return Err(BadUrl::Stray);
    }
    let authority = rest.split('/').next().unwrap_or_default();
    if authority.contains('@') {
        return Err(BadUrl::UserInfo);
    }
    let (host, port) = place(authority)?;
    if host.is_empty() {
        return Err(BadUrl::Host);
    }
    if port.is_some_and(|port| !matches!(port.parse::<u16>(), Ok(1..))) {
        return Err(BadUrl::Port);
    }
    let loopback = host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    Ok(Checked { https, loopback })
}

/// Whether it is https, and what follows the scheme.
fn scheme(url: &str) -> Result<(bool, &str), BadUrl> {
    match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
        (Some(rest), _) => Ok((true, rest)),
        (_, Some(rest)) => Ok((false, rest)),
        _ => Err(BadUrl::Scheme),
    }
}

/// Host and port as written.
fn place(authority: &str) -> Result<(&str, Option<&str>), BadUrl> {
    match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or(BadUrl::Host)?;
            Ok((host, if after.is_empty() { None } else { Some(after.strip_prefix(':').ok_or(BadUrl::Host)?) }))
        }
        None => Ok(match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_what_is_wrong_with_them() {
        let ok = |https, loopback| Ok(Checked { https, loopback });
        let cases = [
            ("https://api.openai.com/v1", ok(true, false)),
            ("http://127.0.0.1:9999/v1", ok(false, true)),
            ("http://localhost:11434/v1", ok(false, true)),
            ("http://[::1]:8080", ok(false, true)),
            ("http://192.168.0.7:8000/v1", ok(false, false)),
            ("http://127.0.0.1.example.com/v1", ok(false, false)),
            ("ftp://host/", Err(BadUrl::Scheme)),
            ("api.openai.com/v1", Err(BadUrl::Scheme)),
            ("", Err(BadUrl::Scheme)),
            ("http:///v1", Err(BadUrl::Host)),
            ("http://[::1", Err(BadUrl::Host)),
            ("http://host:99999/", Err(BadUrl::Port)),
            ("http://host:0/", Err(BadUrl::Port)),
            ("https://me:secret@host/", Err(BadUrl::UserInfo)),
            ("https://host/v1?key=1", Err(BadUrl::Stray)),
            ("https://ho st/", Err(BadUrl::Stray)),
        ];
        for (url, expected) in cases {
            assert_eq!(check(url), expected, "{url}");
        }
    }

    #[test]
    fn the_port_that_is_asked() {
        for (url, expected) in [
            ("https://api.openai.com/v1/chat/completions", Some(443)),
            ("http://h:9999/v1beta/models/m:streamGenerateContent?alt=sse", Some(9999)),
            ("http://[::1]:8080", Some(8080)),
            ("http://h", Some(80)),
            ("http://h?x=:1", Some(80)),
            ("unix:/x", None),
        ] {
            assert_eq!(port(url), expected, "{url}");
        }
    }
}
