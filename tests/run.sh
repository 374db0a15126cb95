#!/usr/bin/env bash
# Every check of this repository: formatting, lints, all tests. Needs Rust with rustfmt and clippy, git, a C compiler (for
# ring), and Node.js with the packages of tests/npm. As root or in CI it installs what is missing; elsewhere it says what to
# type and stops.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v cargo >/dev/null; then
    echo "tests/run.sh: there is no cargo; get Rust from your distribution or by rustup, 1.91 or newer" >&2
    exit 2
fi

packages=()
command -v git >/dev/null || packages+=(git)
command -v cc >/dev/null || packages+=(gcc libc6-dev)
command -v dbus-daemon >/dev/null || packages+=(dbus-daemon)
command -v node >/dev/null || packages+=(nodejs)
command -v npm >/dev/null || packages+=(npm)
components=()
cargo fmt --version >/dev/null 2>&1 || components+=(rustfmt)
cargo clippy --version >/dev/null 2>&1 || components+=(clippy)

install=()
((${#packages[@]})) && install+=("apt-get install -y --no-install-recommends ${packages[*]}")
((${#components[@]})) && install+=("rustup component add ${components[*]}")
# Clients and a mock server by others, as the lock has them.
[[ tests/npm/node_modules/.package-lock.json -nt tests/npm/package-lock.json ]] || install+=("npm --prefix tests/npm ci")
for line in "${install[@]}"; do
    if [[ $(id -u) -ne 0 && ${CI:-} != true ]]; then
        echo "tests/run.sh: something is missing; type: ${install[*]/%/;}" >&2
        exit 2
    fi
    echo "== $line"
    [[ $line == apt-get* ]] && apt-get update -q
    if ! $line; then
        echo "tests/run.sh: '$line' failed; is the machine offline? The tests need what it installs" >&2
        exit 2
    fi
done
# What the packages of tests/npm have been seen to run on; Debian 12's own is older.
if ! node -e 'process.exit(process.versions.node.split(".")[0] < 20 ? 1 : 0)'; then
    echo "tests/run.sh: Node.js $(node --version) is too old for the packages of tests/npm; get 20 or newer" >&2
    exit 2
fi
echo "== formatting"
cargo fmt --all --check
echo "== lints"
cargo clippy --workspace --all-targets --locked -- --deny warnings
echo "== tests"
status=0
if cargo nextest --version >/dev/null 2>&1; then
    cargo nextest run --workspace --locked --no-fail-fast || status=$?
else
    # It sums up each binary apart; the last line is of all of them.
    cargo test --workspace --locked --no-fail-fast --quiet |
        awk '{ print } /^test result:/ { passed += $4; failed += $6 } END { print passed " passed, " failed " failed" }' ||
        status=$?
fi
echo "== not run by themselves, and why"
{ grep -rhA1 --include='*.rs' --exclude-dir={target,node_modules} '#\[ignore = ' . || true; } |
    awk -F'"' '/ignore/ { why = $2 } /fn / { sub(/^ *(pub )?fn /, ""); sub(/\(.*/, ""); print $0 ": " why }'
exit "$status"
