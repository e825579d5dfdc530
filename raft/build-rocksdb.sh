#!/usr/bin/env bash
# Builds RocksDB once, as one static library for every profile and checkout, and tells cargo of it.
#
# cargo's own way (the build script of librocksdb-sys) compiles 343 files for each profile, a quarter of an hour each time.
# Here the same sources, with the same definitions, are joined into some fifteen files and compiled on all cores through
# ccache, by clang where it is there: it takes two thirds of g++'s time. The library lies in target/rocksdb, keyed by what it is
# made of; target/rocksdb/cargo.toml, which .cargo/config.toml includes where it exists, hands it to cargo. Without it cargo builds RocksDB in its own way.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "$(uname -s)" != Linux ]; then
  echo "rocksdb: left to cargo, as this is not Linux"
  exit 0
fi

# A joined file is closed when its sources exceed this many bytes: both cores then end at nearly the same time.
JOINED_BYTES=500000
# What no other source names: tools, test helpers, and extensions that the C interface does not offer.
UNUSED="^(tools/|test_util/transaction|utilities/(blob_db|cassandra|env_mirror|fault_injection|persistent_cache|simulator_cache))"
CXX=${CXX:-$(command -v clang++ || echo g++)}

# The definitions of librocksdb-sys's build.rs for Linux and the feature `lz4`, and no others.
FLAGS=(-std=c++20 -O2 -fPIC -ffunction-sections -fdata-sections -w -include cstdint
  -DNDEBUG=1 -DLZ4=1 -DHAVE_ALIGNED_NEW -DHAVE_UINT128_EXTENSION -DOS_LINUX
  -DROCKSDB_PLATFORM_POSIX -DROCKSDB_LIB_IO_POSIX -DROCKSDB_SCHED_GETCPU_PRESENT -DROCKSDB_AUXV_GETAUXVAL_PRESENT
  -DROCKSDB_FALLOCATE_PRESENT -DROCKSDB_RANGESYNC_PRESENT)
# Checksums of all that is written by the processor's own instruction, which every x86 of the last fifteen years has.
if [ "$(uname -m)" = x86_64 ]; then FLAGS+=(-msse4.2 -mpclmul); fi

# The folder of a crate's sources, of the version that Cargo.lock names.
sources_of() {
  cargo metadata --format-version 1 --locked |
    grep -o "\"manifest_path\":\"[^\"]*/$1-[0-9][^/\"]*/Cargo.toml\"" | head -1 | sed 's/.*:"\(.*\)\/Cargo.toml"/\1/'
}

locked() { grep -A 3 -E "^name = \"(librocksdb-sys|lz4-sys)\"" Cargo.lock; }
key=$({ locked; echo "${FLAGS[@]}"; uname -m; "$CXX" --version; cat "$0"; } | sha256sum | cut -c1-16)
mkdir -p target/rocksdb
place=$(realpath target)/rocksdb/$key
# Whoever else builds it here is waited for.
exec 9>target/rocksdb/lock
flock 9
if [ -e "$place/librocksdb.a" ] && grep -qs "\"$place\"" target/rocksdb/cargo.toml; then
  exit 0
fi

tell_cargo() {
  # A cargo that reads it meanwhile finds the one or the other.
  printf '[env]\nROCKSDB_LIB_DIR = "%s"\nROCKSDB_STATIC = "1"\n' "$place" >target/rocksdb/cargo.toml.new
  mv target/rocksdb/cargo.toml.new target/rocksdb/cargo.toml
}

if [ -e "$place/librocksdb.a" ]; then
  tell_cargo
  exit 0
fi

crate=$(sources_of librocksdb-sys)
lz4=$(sources_of lz4-sys)
work=$place.building
rm -rf "$work"
mkdir -p "$work"

# Joins the sources in their listed order: `bytes file` lines go in, joined-NN.cc come out, and their names, the largest first.
(cd "$crate/rocksdb" && grep -v '^util/build_version.cc$' ../rocksdb_lib_sources.txt | xargs wc -c) |
  grep -v ' total$' |
  awk -v limit="$JOINED_BYTES" -v work="$work" -v unused="$UNUSED" '
    sum == 0 || sum + $1 > limit { number++; sum = 0 }
    { sum += $1 }
    $2 !~ unused { bytes[number] += $1; printf "#include \"%s\"\n", $2 > sprintf("%s/joined-%02d.cc", work, number) }
    END { for (one in bytes) printf "%d joined-%02d.cc\n", bytes[one], one }' |
  sort -rn | cut -d ' ' -f 2 >"$work/order"
echo build_version.cc >>"$work/order"
cp "$crate/build_version.cc" "$work/"

count=$(find "$work" -name '*.cc' | wc -l)
echo "rocksdb: compiling $count files on $(nproc) cores, some four minutes on two; once for every profile"
started=$SECONDS
launcher=$(command -v ccache || true)
# By the list of what was included (-MD) ccache knows a file again: without it each one is read by the preprocessor once more.
export CCACHE_DEPEND=1
(cd "$work" && xargs -P "$(nproc)" -I{} $launcher "$CXX" "${FLAGS[@]}" -MD \
  -I"$crate/rocksdb/include" -I"$crate/rocksdb" -I"$crate" -I"$lz4/liblz4/lib" -c {} <order)
ar crs "$work/librocksdb.a" "$work"/*.o
rm -f "$work"/*.o "$work"/*.d "$work"/*.cc "$work/order"
# raft/build.rs compares it with Cargo.lock.
basename "$crate" >"$work/version"
rm -rf "$place"
mv "$work" "$place"
tell_cargo
echo "rocksdb: built in $((SECONDS - started)) s"
