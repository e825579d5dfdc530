//! The layering, read from the sources: which crate may use which, what pure crates must not use, and that the modules
//! of a crate form no cycles (docs/design/floors.md).

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use tests::sources::checkout;

/// The crates with their folders, the lowest first. Each may use those before it.
const FLOORS: [(&str, &str); 12] = [
    ("model", "model"),
    ("machine", "raft/machine"),
    ("directory", "raft/directory"),
    ("traffic", "network/traffic"),
    ("network", "network"),
    ("whatsapp", "whatsapp"),
    ("raft", "raft"),
    ("state", "shard/state"),
    ("shard", "shard"),
    ("api", "api"),
    ("node", "node"),
    ("chaos", "chaos"),
];

/// Crates of plain values and functions.
const PURE: [&str; 5] = ["model", "machine", "directory", "traffic", "state"];

/// Dependencies that a pure crate must not have: runtimes, disks, networks, and clocks of others.
const IMPURE: [&str; 14] = [
    "async-trait",
    "fail",
    "futures",
    "hyper",
    "metrics",
    "network",
    "object_store",
    "openraft",
    "raft",
    "reqwest",
    "rocksdb",
    "salvo",
    "tokio",
    "tracing",
];

/// Libraries that only some crates may use.
const KEPT: [(&str, &[&str]); 3] = [("openraft", &["raft"]), ("rocksdb", &["raft"]), ("salvo", &["api", "node"])];

/// Modules that still form cycles, one cycle a line. The list only shrinks: remove a cycle here when you break it.
const KNOTS: &[(&str, &[&str])] = &[("whatsapp", &["inbound", "line", "outbound", "wire"])];

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The names under `[dependencies]` of a crate.
fn dependencies(folder: &str) -> BTreeSet<String> {
    let manifest = read(&checkout().join(folder).join("Cargo.toml"));
    let lines = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
    let named = lines.take_while(|line| !line.starts_with('['));
    named
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn arrows_between_crates_point_down() {
    for (n, (name, folder)) in FLOORS.iter().enumerate() {
        let used = dependencies(folder);
        for (above, _) in &FLOORS[n..] {
            assert!(!used.contains(*above), "{name} uses {above}, which stands above it");
        }
        for (library, users) in KEPT {
            assert!(!used.contains(library) || users.contains(name), "{name} uses {library}, which is for {users:?}");
        }
        if PURE.contains(name) {
            let impure: Vec<_> = IMPURE.iter().filter(|library| used.contains(**library)).collect();
            assert!(impure.is_empty(), "{name} is to be pure and uses {impure:?}");
        }
    }
}

/// A source without its comments and tests.
fn product(source: &str) -> String {
    let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    let (mut kept, mut lines) = (String::new(), code);
    while let Some(line) = lines.next() {
        if line.trim() != "#[cfg(test)]" {
            kept.push_str(line);
            kept.push('\n');
            continue;
        }
        // Skips the next item: a line, or everything up to its closing brace.
        let indent = &line[..line.len() - line.trim_start().len()];
        let mut item = lines.by_ref().skip_while(|line| line.trim_start().starts_with("#["));
        if !item.next().unwrap_or_default().ends_with(';') {
            let end = format!("{indent}}}");
            lines.by_ref().find(|line| *line == end);
        }
    }
    kept
}

/// The modules of the crate that a piece of code names: after `crate::`, and after `super::` where that is the crate.
fn named(code: &str, depth: usize, modules: &BTreeMap<String, String>) -> BTreeSet<String> {
    let root = "super::".repeat(depth);
    let mut found = BTreeSet::new();
    for (at, start) in ["crate::", &root].iter().flat_map(|start| code.match_indices(*start)) {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | ':' | '$')) {
            continue;
        }
        let rest = &code[at + start.len()..];
        let paths = match rest.strip_prefix('{') {
            Some(group) => parts(group),
            None => vec![rest],
        };
        let first =
            |path: &str| path.trim_start().split(|c: char| !c.is_alphanumeric() && c != '_').next().map(str::to_owned);
        found.extend(paths.into_iter().filter_map(first).filter(|name| modules.contains_key(name)));
    }
    found
}

/// The paths of a `use` group whose opening brace has been removed.
fn parts(group: &str) -> Vec<&str> {
    let (mut depth, mut begin, mut parts) = (0_u32, 0, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' | ',' if depth == 0 => {
                parts.push(&group[begin..at]);
                begin = at + 1;
                if c == '}' {
                    break;
                }
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    parts
}

/// The source files below a folder with their depth in the module tree, without files that are only tests.
fn collect(folder: &Path, depth: usize, into: &mut Vec<(String, usize)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if matches!(name.as_str(), "tests" | "fixture") || name.ends_with("_tests") {
            continue;
        }
        if path.is_dir() {
            collect(&path, depth + 1, into);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let depth = if name == "mod" { depth - 1 } else { depth };
            into.push((product(&read(&path)), depth));
        }
    }
}

/// The modules that `lib.rs` of a crate declares outside of tests, and which other modules each uses.
fn arrows(source: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let lib = product(&read(&source.join("lib.rs")));
    let declared =
        lib.lines().filter_map(|line| line.strip_suffix(';')?.split_once("mod ").map(|(_, name)| name.to_owned()));
    let modules: BTreeMap<String, String> = declared.map(|name| (name.clone(), name)).collect();
    let uses = |module: &String| {
        let mut files = Vec::new();
        let single = source.join(format!("{module}.rs"));
        if single.exists() {
            files.push((product(&read(&single)), 1));
        }
        if source.join(module).is_dir() {
            collect(&source.join(module), 2, &mut files);
        }
        let mut used: BTreeSet<String> = files.iter().flat_map(|(code, depth)| named(code, *depth, &modules)).collect();
        used.remove(module);
        (module.clone(), used)
    };
    modules.keys().map(uses).collect()
}

/// Groups of modules that reach each other.
fn knots(arrows: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<Vec<String>> {
    let reached = |from: &String| {
        let (mut seen, mut waiting) = (BTreeSet::new(), vec![from]);
        while let Some(module) = waiting.pop() {
            waiting.extend(arrows[module].iter().filter(|next| seen.insert((*next).clone())));
        }
        seen
    };
    let reach: BTreeMap<&String, BTreeSet<String>> = arrows.keys().map(|module| (module, reached(module))).collect();
    let knot = |module: &String| -> Vec<String> {
        reach[module].iter().filter(|other| reach[other].contains(module)).cloned().collect()
    };
    arrows.keys().map(knot).filter(|knot| !knot.is_empty()).collect()
}

/// The names of features and dependencies on the lines of a manifest that contain a word.
fn named_with(folder: &str, word: &str) -> Vec<String> {
    let manifest = read(&checkout().join(folder).join("Cargo.toml"));
    let lines = manifest.lines().filter(|line| !line.starts_with('#') && line.contains(word));
    lines.filter_map(|line| line.split([' ', '=', '.']).next()).map(str::to_owned).collect()
}

/// The test network's certificates are self-signed. Code that accepts them must be in no build for customers;
/// `.ci/whatsapp` checks the builds themselves.
#[test]
fn only_builds_with_the_test_network_take_certificates_that_nobody_signed() {
    let folders = FLOORS.iter().map(|(_, folder)| *folder).chain(["", "testnet", "tests"]);
    let found: Vec<(&str, Vec<String>)> =
        folders.map(|folder| (folder, named_with(folder, "danger"))).filter(|(_, named)| !named.is_empty()).collect();
    assert_eq!(found, [("whatsapp", vec!["testnet".to_owned()]), ("testnet", vec!["wacore".to_owned()])]);
    assert_eq!(named_with("whatsapp", "\"testnet\""), ["tests"], "its own tests alone ask for that");
    assert!(named_with("node", "testnet").iter().all(|name| name == "testnet"), "no other feature may ask for it");
}

#[test]
fn modules_of_a_crate_form_no_cycles() {
    let mut wrong = Vec::new();
    for (name, folder) in FLOORS {
        let arrows = arrows(&checkout().join(folder).join("src"));
        let found = knots(&arrows);
        let known = KNOTS.iter().filter(|(of, _)| *of == name);
        let known: BTreeSet<Vec<String>> =
            known.map(|(_, knot)| knot.iter().map(|module| (*module).to_owned()).collect()).collect();
        for knot in found.difference(&known) {
            wrong.push(format!("{name}: {knot:?} form a cycle, which the list of knots does not have"));
            wrong.extend(knot.iter().map(|module| format!("    {module} uses {:?}", arrows[module])));
        }
        wrong.extend(
            known.difference(&found).map(|knot| format!("{name}: {knot:?} form no such cycle: shorten the list")),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_cycle_is_found_through_every_way_of_naming_a_module() {
    let modules: BTreeMap<String, String> = ["a", "b", "c"].map(|name| (name.to_owned(), name.to_owned())).into();
    let uses = |code: &str, depth| named(&product(code), depth, &modules).into_iter().collect::<Vec<_>>().concat();
    let table = [
        ("use crate::b::Thing;", 1, "b"),
        ("use crate::{a, b::{self, c}};", 1, "ab"),
        ("use super::c;", 1, "c"),
        ("use super::c;", 2, ""),
        ("let thing = super::super::c::thing();", 2, "c"),
        ("// See crate::a.\n#[cfg(test)]\nmod tests {\n    use crate::b;\n}\nuse crate::c;", 1, "c"),
        ("#[cfg(test)]\n#[path = \"b_tests.rs\"]\nmod tests;\nfn one() { crate::a::two() }", 1, "a"),
        ("use mycrate::a; use other::super_crate::b;", 1, ""),
    ];
    for (code, depth, expected) in table {
        assert_eq!(uses(code, depth), expected, "{code}");
    }
    let arrows = |pairs: &[(&str, &str)]| -> BTreeMap<String, BTreeSet<String>> {
        let of = |from: &str| pairs.iter().filter(|(pair, _)| *pair == from).map(|(_, to)| (*to).to_owned()).collect();
        modules.keys().map(|from| (from.clone(), of(from))).collect()
    };
    assert!(knots(&arrows(&[("a", "b"), ("b", "c"), ("a", "c")])).is_empty());
    let knot = |names: [&str; 2]| BTreeSet::from([names.map(str::to_owned).to_vec()]);
    assert_eq!(knots(&arrows(&[("a", "b"), ("b", "c"), ("c", "b")])), knot(["b", "c"]));
}
