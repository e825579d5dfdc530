//! Refuses a RocksDB that `build-rocksdb.sh` has compiled of other sources than those that the bindings are of.

use std::path::Path;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-env-changed=ROCKSDB_LIB_DIR");
    println!("cargo::rerun-if-changed=../Cargo.lock");
    let Some(folder) = env::var_os("ROCKSDB_LIB_DIR") else { return };
    // A folder without a version is somebody's own.
    let Ok(compiled) = fs::read_to_string(Path::new(&folder).join("version")) else { return };
    let lock = fs::read_to_string("../Cargo.lock").unwrap_or_default();
    let named = lock.split("name = \"librocksdb-sys\"\nversion = \"").nth(1).and_then(|rest| rest.split('"').next());
    let wanted = format!("librocksdb-sys-{}", named.unwrap_or_default());
    if compiled.trim() != wanted {
        println!(
            "cargo::error=RocksDB was compiled of {}, and Cargo.lock names {wanted}: run `make rocksdb`",
            compiled.trim()
        );
    }
}
