//! The patches of bugs that are put back (`chaos/mutations`), which `make test-all` builds.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use chaos::mutation::Bug;
use tests::sources::checkout;

fn patches(folder: &Path) -> Vec<(String, String)> {
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let patches = files.filter(|path| path.extension().is_some_and(|end| end == "patch"));
    let mut patches: Vec<_> = patches
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read_to_string(&path).unwrap()))
        .collect();
    patches.sort();
    patches
}

#[test]
fn all_planted_faults_apply_to_the_product_together_and_the_product_has_none_of_them() {
    let checkout = checkout();
    let patches = patches(&checkout.join("chaos/mutations"));
    let copy = tempfile::tempdir().unwrap();
    for (_, text) in &patches {
        for file in text.lines().filter_map(|line| line.strip_prefix("--- a/")) {
            let (from, to) = (checkout.join(file), copy.path().join(file));
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            let product = fs::read_to_string(from).unwrap();
            let planted = Bug::ALL.iter().find(|bug| product.contains(&format!("Bug::{bug:?}")));
            assert_eq!(planted, None, "{file} has a planted fault");
            fs::write(to, product).unwrap();
        }
    }
    for (name, text) in &patches {
        let mut git = Command::new("git");
        git.args(["apply", "-"]).current_dir(copy.path()).env("GIT_CEILING_DIRECTORIES", copy.path().parent().unwrap());
        let mut applying = git.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        applying.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let applied = applying.wait_with_output().unwrap();
        assert!(applied.status.success(), "{name}: {}", String::from_utf8_lossy(&applied.stderr));
    }
    let all: String = patches.into_iter().map(|(_, text)| text).collect();
    for bug in Bug::ALL {
        assert!(all.contains(&format!("Bug::{bug:?})")), "{bug:?} is in no patch");
        assert!(all.contains(&format!("{bug:?} = \"{}\"", bug.as_str())), "{bug:?} has no failpoint");
    }
}
