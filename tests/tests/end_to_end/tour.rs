//! Runs the guide: the commands of its pages, in order, in one shell.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs};

use tests::cluster::{Cluster, Options};
use tests::{binary, documents};

/// How long all pages may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// The prefix of a line with expected output.
const EXPECTED: &str = "#=>";

/// One or more commands, the last of which has expected output.
struct Step {
    page: String,
    commands: String,
    /// Text that their output must contain.
    expected: Option<String>,
}

/// The steps of a page, from its `sh` code blocks.
fn steps(page: &Path) -> Vec<Step> {
    let text = fs::read_to_string(page).unwrap();
    let name = page.file_name().unwrap().to_string_lossy().into_owned();
    let mut steps = Vec::new();
    for block in text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap()) {
        let mut commands = String::new();
        for line in block.lines() {
            let (command, expected) = line
                .split_once(EXPECTED)
                .map_or((line, None), |(command, expected)| (command, Some(expected.trim().to_owned())));
            writeln!(commands, "{command}").unwrap();
            if expected.is_some() {
                steps.push(Step { page: name.clone(), commands: std::mem::take(&mut commands), expected });
            }
        }
        if !commands.trim().is_empty() {
            steps.push(Step { page: name.clone(), commands, expected: None });
        }
    }
    steps
}

/// A script of all steps. The output of each goes to its own file; variables are visible to later steps.
fn script(steps: &[Step]) -> String {
    let each = steps.iter().enumerate();
    each.map(|(n, step)| format!("{{\n{}}} > out-{n} 2>&1 < /dev/null\n", step.commands)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_of_the_guide_says_what_the_guide_says() {
    let cluster = Cluster::start(Options::default()).await;
    let mut pages: Vec<PathBuf> =
        documents::all().into_iter().filter(|page| page.starts_with(documents::guide())).collect();
    pages.sort();
    let steps: Vec<Step> = pages.iter().flat_map(|page| steps(page)).collect();
    assert!(steps.iter().filter(|step| step.expected.is_some()).count() > 20, "the guide says what comes");

    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(cluster.data(), folder.path().join(".gateway-dev")).unwrap();
    fs::write(folder.path().join("tour.sh"), script(&steps)).unwrap();
    let gateway = binary::gateway();
    let paths = env::split_paths(&env::var_os("PATH").unwrap()).collect::<Vec<_>>();
    let path = env::join_paths([gateway.parent().unwrap().to_owned()].into_iter().chain(paths)).unwrap();
    let bash = Path::new("/bin/bash");
    let environment = [("PATH", path.to_str().unwrap()), ("BROWSER", "true")];
    let ran = binary::run_program(bash, &["tour.sh"], folder.path(), PATIENCE, &environment);

    let wrong: Vec<String> = steps
        .iter()
        .enumerate()
        .filter_map(|(n, step)| {
            let said = fs::read_to_string(folder.path().join(format!("out-{n}"))).unwrap_or_default();
            let expected = step.expected.as_ref().filter(|expected| !said.contains(expected.as_str()))?;
            Some(format!("{}:\n{}{EXPECTED} {expected}\nbut it says:\n{said}", step.page, step.commands))
        })
        .collect();
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n---\n"), ran.stderr);
}
