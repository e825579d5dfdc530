//! The sources of the end-to-end tests, for tables that say which test covers what: a name without a test, or a word
//! that no test expects, is a mistake in the table.

use std::path::{Path, PathBuf};

/// The checkout under test. Cargo names it when it starts a test; the test may have been compiled in another checkout
/// that shares the target folder.
pub fn checkout() -> PathBuf {
    let member = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&member).parent().expect("every crate lies in the repository").to_owned()
}

pub struct Sources(Vec<String>);

impl Sources {
    pub fn read() -> Self {
        let mut sources = Vec::new();
        collect(&checkout().join("tests/tests"), &mut sources);
        Self(sources)
    }

    /// Whether there is a test with this name.
    pub fn have_test(&self, name: &str) -> bool {
        self.with_test(name).is_some()
    }

    /// Whether any test has this word in quotes.
    pub fn quote(&self, word: &str) -> bool {
        let quoted = format!("\"{word}\"");
        self.0.iter().any(|source| source.contains(&quoted))
    }

    /// The source of the test with this name.
    pub fn with_test(&self, name: &str) -> Option<&str> {
        let declared = format!("async fn {name}()");
        self.0.iter().find(|source| source.contains(&declared)).map(String::as_str)
    }
}

fn collect(folder: &Path, into: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(std::fs::read_to_string(&path).unwrap());
        }
    }
}
