#!/usr/bin/env bash
# `make test-all`: every part of the judgement that takes too long for each change, one after the other, or those that are
# named. What each said is noted in docs/quality/testing.md, with the commit; logs lie in target/test-all. Ends with 1 if any failed.
set -uo pipefail
cd "$(dirname "$0")/.."

PARTS=(ignored schemathesis pages measure prove hour ownership simulation corpus fuzz whatsapp)
DESCRIBED=docs/quality/testing.md
LOGS=target/test-all
mkdir -p "$LOGS"

if [ "$(id -u)" -ne 0 ]; then
  echo "test-all: needs root, for network namespaces, file systems and clocks of its own" >&2
  exit 2
fi

# Tests that `make test` leaves out: `#[ignore = "of test-all: ..."]`.
ignored() { cargo test --workspace --no-fail-fast -- --ignored --skip openapi:: --skip bugs_are_caught:: ; }

# Every call of the OpenAPI document, with many more examples than `make test` takes.
schemathesis() { cargo test --package tests --test end_to_end -- --ignored openapi:: ; }

# Every page of the console in both colours at both widths; `make test` judges two of the four views.
pages() { GATEWAY_CONSOLE_VIEWS=all cargo test --package tests --test end_to_end console::browser:: ; }

# What pages that stand open take of processors, and the Events page of memory in an hour of 200 events a second.
measure() { node console/measure.mjs ; }

# Each planted fault of the product, in as many runs as its row says, and some of them together.
prove() {
  local faulty
  faulty=$(chaos/mutations/build.sh) || return
  GATEWAY_BIN=$faulty cargo test --package chaos --test clusters -- --ignored bugs_are_caught:: || return
  GATEWAY_BIN=$faulty target/debug/gateway-chaos prove
}

hour() { target/debug/gateway-chaos run --profile hour --report "$LOGS/hour-$(date -u +%Y%m%dT%H%M%S)" ; }

# 10,000 channels, whose owners change again and again.
ownership() { target/debug/gateway-chaos run --profile ownership --report "$LOGS/ownership-$(date -u +%Y%m%dT%H%M%S)" ; }

simulation() { target/debug/gateway-sim run --seeds "${SEEDS:-0..10000}" ; }

corpus() { FUZZ_INPUTS=100000 cargo test --package chaos --test pure -- fuzz_corpus ; }

# Guided by coverage, each target for so many seconds.
fuzz() {
  command -v cargo-fuzz >/dev/null || cargo install --quiet --locked cargo-fuzz || return
  cp Cargo.lock fuzz/
  for target in fuzz/fuzz_targets/*.rs; do
    cargo fuzz run --sanitizer none "$(basename "$target" .rs)" -- -max_total_time="${FUZZ_SECONDS:-300}" || return
  done
}

# The driver of the real network against its test network, which no other part compiles.
whatsapp() { make whatsapp ; }

# Writes the part's row of the last table anew.
note() {
  local part=$1 said=$2
  local ran="$(date -u +%Y-%m-%d) | $(git rev-parse --short=10 HEAD)$(git diff --quiet HEAD || echo ' and changes')"
  awk -v part="| \`$part\` |" -v ran="$ran" -v said="$said" -F' [|] ' '
    /^## / { last = /last ran/ }
    last && index($0, part) == 1 { print $1 " | " $2 " | " ran " | " said " |"; next } { print }' "$DESCRIBED" >"$LOGS/described" &&
    cp "$LOGS/described" "$DESCRIBED"
}

cargo build --workspace || exit 1
failed=()
for part in "${@:-${PARTS[@]}}"; do
  [[ " ${PARTS[*]} " == *" $part "* ]] || { echo "test-all: no part $part; they are ${PARTS[*]}" >&2; exit 2; }
  echo "test-all: $part"
  started=$SECONDS
  if ("$part") > >(tee "$LOGS/$part.log") 2>&1; then said=holds; else said="FAILED"; failed+=("$part"); fi
  note "$part" "$said, $(((SECONDS - started) / 60)) min"
done
[ ${#failed[@]} -eq 0 ] || { echo "test-all: failed: ${failed[*]}; see $LOGS" >&2; exit 1; }
