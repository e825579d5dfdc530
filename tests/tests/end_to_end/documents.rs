//! The pages, anchors, files and tests that documents name exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use model::webhook::signature::signature_header;
use tests::documents::{all, guide, root};

/// The longest README that people read, in lines.
const README_LINES: usize = 150;

/// The anchors of a page's headings, as generated from their text.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let kept = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    headings
        .map(|text| text.to_lowercase().chars().filter(|c| kept(*c)).collect::<String>().replace(' ', "-"))
        .collect()
}

/// The links of a page to targets in the repository.
fn links(page: &str) -> impl Iterator<Item = &str> {
    let targets = page.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://") && !target.contains(' '))
}

#[test]
fn every_link_between_documents_leads_somewhere() {
    let mut dead = Vec::new();
    for page in all() {
        let text = fs::read_to_string(&page).unwrap();
        for link in links(&text) {
            let (file, anchor) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
            let target = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            let is_there = match anchor {
                None => target.exists(),
                Some(anchor) => fs::read_to_string(&target).is_ok_and(|text| anchors(&text).contains(anchor)),
            };
            if !is_there {
                dead.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(dead.is_empty(), "{dead:#?}");
}

/// The total size of the documents' pictures at most, in bytes.
const PICTURES: u64 = 1_500_000;

#[test]
fn every_picture_is_shown_somewhere_and_together_they_are_small() {
    let mut left = BTreeMap::new();
    for entry in fs::read_dir(root().join("docs/images/console")).unwrap().flatten() {
        left.insert(entry.path().canonicalize().unwrap(), entry.metadata().unwrap().len());
    }
    let together: u64 = left.values().sum();
    assert!((1..=PICTURES).contains(&together), "{together} bytes");
    for page in all() {
        for link in links(&fs::read_to_string(&page).unwrap()) {
            if let Ok(target) = page.parent().unwrap().join(link).canonicalize() {
                left.remove(&target);
            }
        }
    }
    assert!(left.is_empty(), "no page shows these: {left:?}");
}

#[test]
fn every_page_stands_in_the_summary_and_readme_is_short() {
    let docs = root().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let listed: BTreeSet<PathBuf> = links(&summary).map(|link| docs.join(link)).collect();
    let all = all().into_iter().filter(|page| page.starts_with(&docs) && !page.ends_with("SUMMARY.md"));
    let missing: Vec<_> = all.filter(|page| !listed.contains(page)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.lines().count() <= README_LINES);
}

/// All Rust files of the repository, with their contents.
fn code() -> Vec<(PathBuf, String)> {
    let mut folders: Vec<PathBuf> =
        ["model", "network", "whatsapp", "testnet", "raft", "shard", "api", "node", "tests", "chaos"]
            .iter()
            .map(|name| root().join(name))
            .collect();
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    found
}

/// The text between single backticks.
fn quoted(page: &str) -> impl Iterator<Item = &str> {
    page.lines().filter(|line| !line.starts_with("```")).flat_map(|line| line.split('`').skip(1).step_by(2))
}

#[test]
fn every_name_and_every_file_that_a_document_names_is_there() {
    let code = code();
    let is_said = |name: &str| code.iter().any(|(_, text)| text.contains(name));
    let has_file = |name: &str| code.iter().any(|(path, _)| path.ends_with(Path::new(name)));
    // Tests, functions, fields, keys and metrics; the excluded one is a field of openraft.
    let is_name = |name: &str| {
        name.contains('_')
            && name != "last_quorum_acked"
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    let is_file = |name: &str| name.ends_with(".rs") && !name.contains(['*', '{', ' ']);
    let mut unknown = Vec::new();
    for page in all().into_iter().filter(|page| !page.ends_with("CHANGELOG.md")) {
        for name in quoted(&fs::read_to_string(&page).unwrap()) {
            let is_known = (!is_name(name) || is_said(name)) && (!is_file(name) || has_file(name));
            if !is_known {
                unknown.push(format!("{}: {name}", page.display()));
            }
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
}

/// Texts that are not in the repository, by the words that cite them: by file name or by section number.
const ELSEWHERE: [&str; 9] =
    ["console", "design", "interface", "section", "sections", "simulator", "spec", "specification", "supplement"];

/// The text that a line cites although it is not in the repository. RFCs are public.
fn cites_elsewhere(line: &str, is_there: impl Fn(&str) -> bool) -> Option<String> {
    let words: Vec<&str> = line
        .split(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | '`' | '"' | '[' | ']'))
        .map(|word| word.trim_end_matches(['.', ',', ':', ';']))
        .collect();
    let is_elsewhere = |name: &str| ELSEWHERE.contains(&name.trim_end_matches("'s").to_lowercase().as_str());
    let is_lost = |word: &&&str| {
        let is_page = word.starts_with("docs/") && word.contains(".md");
        is_page && !is_there(word) || word.strip_suffix(".md").is_some_and(is_elsewhere)
    };
    let is_numbered = |pair: &&[&str]| is_elsewhere(pair[0]) && pair[1].starts_with(|c: char| c.is_ascii_digit());
    let lost = words.iter().find(is_lost).map(|word| (*word).to_owned());
    let numbered = || words.windows(2).find(is_numbered).filter(|_| !line.contains("RFC ")).map(|pair| pair.join(" "));
    lost.or_else(numbered)
}

#[test]
fn code_and_documents_cite_only_what_is_in_the_repository() {
    let pages = all();
    let is_there = |cited: &str| {
        let (file, anchor) = cited.split_once('#').map_or((cited, None), |(file, anchor)| (file, Some(anchor)));
        let page = pages.iter().find(|page| page.ends_with(Path::new(file)));
        page.is_some_and(|page| {
            anchor.is_none_or(|anchor| anchors(&fs::read_to_string(page).unwrap()).contains(anchor))
        })
    };
    let prose = pages.iter().map(|page| (page.clone(), fs::read_to_string(page).unwrap()));
    let comments = code().into_iter().filter(|(path, _)| !path.ends_with(Path::new("end_to_end/documents.rs")));
    let comments = comments.map(|(path, text)| {
        let lines: Vec<&str> = text.lines().filter_map(|line| Some(line.split_once("//")?.1)).collect();
        (path, lines.join("\n"))
    });
    let mut cited = Vec::new();
    for (path, text) in comments.chain(prose) {
        let found = text.lines().filter_map(|line| cites_elsewhere(line, is_there));
        cited.extend(found.map(|cited| format!("{}: {cited}", path.display())));
    }
    assert!(cited.is_empty(), "{cited:#?}");
}

#[test]
fn a_citation_of_a_text_elsewhere_is_told_from_one_of_a_page() {
    let is_there = |page: &str| page == "docs/design/http.md" || page == "docs/limits.md#by-design";
    let table = [
        ("/// The longest address (supplement 32, row 9).", Some("supplement 32")),
        ("//! By the design section 8: check.", Some("section 8")),
        ("// See interface's 4.2.", Some("interface's 4.2")),
        ("/// As console.md says.", Some("console.md")),
        ("/// See docs/limits.md#no-such-heading.", Some("docs/limits.md#no-such-heading")),
        ("/// See docs/design/http.md and docs/limits.md#by-design.", None),
        ("/// Ranges of a request (RFC 9110, section 14).", None),
        ("/// A run leaves `report.md`; the interface has 178 calls.", None),
    ];
    for (line, expected) in table {
        assert_eq!(cites_elsewhere(line, is_there).as_deref(), expected, "{line}");
    }
}

#[test]
fn every_alert_has_its_place_in_the_documents() {
    let rules = fs::read_to_string(root().join("deploy/prometheus/alerts.yml")).unwrap();
    let page = fs::read_to_string(root().join("docs/operate/alerts.md")).unwrap();
    let said: BTreeSet<&str> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let ruled: BTreeSet<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert_eq!(said, ruled);
}

#[test]
fn the_list_of_what_make_does_fits_eighty_columns() {
    let listed = Command::new("make").args(["--no-print-directory", "help"]).current_dir(root()).output().unwrap();
    let said = String::from_utf8_lossy(&listed.stdout);
    assert!(listed.status.success() && said.contains("  make run  "), "{said}");
    assert!(said.lines().all(|line| line.len() <= 80), "{said}");
}

/// The guide's example in a language.
fn shown(language: &str) -> String {
    let page = fs::read_to_string(guide().join("api.md")).unwrap();
    let block = page.split(&format!("```{language}\n")).nth(1).unwrap();
    block.split("```").next().unwrap().to_owned()
}

#[test]
fn the_signature_checks_of_the_guide_tell_true_from_false() {
    const AT: i64 = 1_767_225_600;
    let (secret, body) = ("whsec_0123456789", r#"{"a":"ä"}"#);
    let header = signature_header(&["another-secret-0", secret], AT, body.as_bytes());
    let cases = [(secret, 299, true), (secret, 301, false), ("whsec_x", 0, false)];
    let python: String = cases
        .iter()
        .map(|(secret, late, is_true)| {
            let truth = if *is_true { "" } else { "not " };
            format!("assert {truth}is_signed('{secret}', '{header}', '{body}'.encode(), {})\n", AT + late)
        })
        .collect();
    let node: String = cases
        .iter()
        .map(|(secret, late, is_true)| {
            let call = format!("isSigned('{secret}', '{header}', '{body}', {})", AT + late);
            format!("if ({call} !== {is_true}) process.exit(1);\n")
        })
        .collect();
    for (program, flag, language, checks) in [("python3", "-c", "python", python), ("node", "-e", "js", node)] {
        // Node.js is required neither to build nor to test; the example runs if it is installed.
        match Command::new(program).arg(flag).arg(shown(language) + &checks).output() {
            Ok(ran) => assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr)),
            Err(_) if program == "node" => eprintln!("skipped: there is no node"),
            Err(error) => panic!("{program}: {error}"),
        }
    }
}
