#!/usr/bin/env bash
# Builds a gateway that has all planted faults, each behind a failpoint of its name, and says where it lies.
#
# The product contains none of them: each is a patch beside this script, which is applied to a copy below the target folder. `names`
# gives the failpoints their names; `machine` holds two, which stand in the state machine: take_repeat_for_new, and the second half of
# ignore_fence. The crates of others are those of the present build. The copy's own have another version: cargo tells crates of one
# workspace from those of another by name and version alone, and would take these for the product's.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=$(realpath target)
place=$target/mutations
rm -rf "$place/source"
mkdir -p "$place/source"
git ls-files -z --cached --others --exclude-standard | xargs -0 sh -c 'for file; do [ ! -e "$file" ] || printf "%s\0" "$file"; done' - |
  xargs -0 cp --parents --preserve=mode -t "$place/source"
for patch in chaos/mutations/*.patch; do
  (cd "$place/source" && GIT_CEILING_DIRECTORIES=$place git apply --whitespace=nowarn) <"$patch"
done
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
other=${version%.*}.999
sed -i "s/^version = \"$version\"\$/version = \"$other\"/" "$place/source/Cargo.toml"
# Packages of the workspace have no source.
sed -i "/^version = \"$version\"\$/{N;/\nsource/!s/$version/$other/}" "$place/source/Cargo.lock"
# So with the crate that stands in for another's, and has the other's version.
sed -i 's/^version = "0.2.3"$/version = "0.2.999"/' "$place/source/raft/histogram/Cargo.toml"
sed -i '/^name = "base2histogram"$/{n;s/0.2.3/0.2.999/}' "$place/source/Cargo.lock"
config=()
if [ -e target/rocksdb/cargo.toml ]; then config=(--config "$target/rocksdb/cargo.toml"); fi
(cd "$place/source" && CARGO_TARGET_DIR=$place CARGO_BUILD_BUILD_DIR=$target \
  cargo build --quiet --locked --workspace --bin gateway "${config[@]}" >&2)
echo "$place/debug/gateway"
