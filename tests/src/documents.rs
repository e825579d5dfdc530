//! Paths of the documents in this repository.

use std::path::PathBuf;

use crate::sources::checkout;

/// The root of the repository.
pub fn root() -> PathBuf {
    checkout().canonicalize().expect("the repository is there")
}

/// The folder of the guide's pages.
pub fn guide() -> PathBuf {
    root().join("docs/guide")
}

/// All pages: those in `docs`, and those that are next to their subject.
pub fn all() -> Vec<PathBuf> {
    let root = root();
    let beside = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "deploy/README.md", "fuzz/README.md"];
    let mut pages: Vec<PathBuf> = beside.iter().map(|page| root.join(page)).collect();
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("docs can be read").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "md") {
                pages.push(path);
            }
        }
    }
    pages
}
