//! Glob: the paths below a folder that match a pattern, sorted.
//!
//! It sees the same files as Grep: the model can count on finding with one what the other named.

use std::path::Path;

use globset::{GlobBuilder, GlobSet};
use ukai_protocol::json::Json;

use super::output::quote_path;
use super::target::target;
use super::walk::Walk;
use super::{Context, Stopped, text};
use crate::permission::path::real_path;

/// Paths that are shown: more tells a model nothing, the count does.
pub const GLOB_PATHS_MAX: u64 = 1_000;

/// As long as a path may be on Linux. It also bounds how deep choices nest, which are gone through by recursion.
const GLOB_BYTES_MAX: usize = 4096;

pub fn run(input: &Json, context: &Context) -> Result<String, Stopped> {
    let pattern = text(input, "pattern").unwrap_or_default();
    let named = text(input, "path");
    let start = target("Glob", named.unwrap_or("."), context)?;
    if !start.is_dir {
        return Err(Stopped::Failed(format!("Glob {}: it is not a folder that exists.", named.unwrap_or("."))));
    }
    let places = context.permission.places();
    // An absolute pattern is taken for what it says as long as it lies below the folder.
    let relative = match Path::new(pattern).strip_prefix(&start.lexical) {
        Ok(rest) => rest.to_str().unwrap_or(pattern),
        Err(_) => pattern.strip_prefix("./").unwrap_or(pattern),
    };
    if relative.starts_with('/') || relative.split('/').any(|part| part == "..") {
        let why = format!("Glob: the pattern `{pattern}` must stay below `path`; name another folder as `path`.");
        return Err(Stopped::Invalid(why));
    }
    let glob = matcher_of(relative)
        .map_err(|error| Stopped::Invalid(format!("Glob was not run: the pattern cannot be read: {error}")))?;

    let mut sink = context.sink("Glob");
    let (mut found_count, mut denied) = (0_u64, 0_u64);
    let passed = Walk::new(&context.cancel).run(&start.real, named.is_some(), places.home(), &mut |found| {
        let Ok(below) = found.real.strip_prefix(&start.real) else { return Ok(()) };
        if !glob.is_match(below) {
            return Ok(());
        }
        let real = if found.is_link { real_path(&found.real) } else { Ok(found.real.clone()) };
        // A link is worth naming only where reading it would work.
        let Ok(real) = real else { return Ok(()) };
        if found.is_link && !real.is_file() {
            return Ok(());
        }
        if !context.permission.read_allowed("Glob", &start.lexical.join(below), &real) {
            denied += 1;
            return Ok(());
        }
        found_count += 1;
        if found_count <= GLOB_PATHS_MAX {
            sink.push(&quote_path(places.display(&found.real).as_os_str().as_encoded_bytes()));
            sink.push("\n");
        }
        Ok(())
    })?;
    let shown = found_count.min(GLOB_PATHS_MAX);
    let more = if shown < found_count { format!(", the first {shown} are shown") } else { String::new() };
    let files = if found_count == 1 { "file" } else { "files" };
    sink.push(&super::grep::passed_over(&passed, denied, ""));
    sink.push(&format!("total: {found_count} {files}{more}\n"));
    Ok(sink.finish())
}

/// What a glob pattern matches, in which only `**` crosses folders. As a set of one: a lone matcher panics where a set
/// says that a pattern grew too large.
pub(super) fn matcher_of(pattern: &str) -> Result<GlobSet, String> {
    if pattern.len() > GLOB_BYTES_MAX {
        return Err(format!("it has {} bytes, at most {GLOB_BYTES_MAX} may be", pattern.len()));
    }
    let glob = GlobBuilder::new(pattern).literal_separator(true).build().map_err(|error| error.to_string())?;
    GlobSet::builder().add(glob).build().map_err(|error| error.to_string())
}
