#!/usr/bin/env bash
# Every check of this repository: formatting, lints, all tests. Needs Rust (with rustfmt and clippy) and git.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
for program in cargo git; do command -v "$program" >/dev/null || missing+=("$program"); done
for component in fmt clippy; do cargo "$component" --version >/dev/null 2>&1 || missing+=("cargo-$component"); done
if ((${#missing[@]})); then
    # Nothing of this is a package that we could pin: Rust comes with rustup, whoever runs this chose how.
    echo "tests/run.sh: missing: ${missing[*]}" >&2
    echo "tests/run.sh: type: apt-get install -y git && rustup component add rustfmt clippy" >&2
    exit 2
fi

echo "== formatting"
cargo fmt --all --check
echo "== lints"
cargo clippy --workspace --all-targets --locked --quiet -- --deny warnings
echo "== tests"
if cargo nextest --version >/dev/null 2>&1; then
    exec cargo nextest run --workspace --locked --no-fail-fast --cargo-quiet
fi
exec cargo test --workspace --locked --no-fail-fast --quiet
