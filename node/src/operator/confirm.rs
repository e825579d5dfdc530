//! Asks for confirmation before a command makes a large or irreversible change.

use super::show;
use crate::cli::members::ConfirmArgs;
use crate::console::{ask, warn};
use crate::refusal::Refusal;

/// Returns when the operator confirms, with `--yes` or at the terminal.
///
/// # Errors
/// A [`Refusal`] when the answer is no, or when there is no terminal.
pub fn confirm(args: &ConfirmArgs, command: &str) -> anyhow::Result<()> {
    if args.yes {
        return Ok(());
    }
    Ok(judge(command, ask("Continue? [y/N]")?.as_deref())?)
}

/// Prints what a command would do. With JSON output, it is printed on standard error, and only if a question follows.
pub fn preview(args: &ConfirmArgs, json: bool, words: &str) {
    match (json, args.yes) {
        (false, _) => show::prose(words),
        (true, false) => warn(words),
        (true, true) => {}
    }
}

fn judge(command: &str, answer: Option<&str>) -> Result<(), Refusal> {
    let (problem, remedy) = match answer.map(str::to_lowercase).as_deref() {
        Some("y" | "yes") => return Ok(()),
        Some(_) => ("nothing was changed", "answer y, or give --yes"),
        None => ("asks before it changes anything, and there is no terminal to ask on", "give --yes in a script"),
    };
    Err(Refusal::new(command, problem, remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_lets_a_command_change_anything() {
        for yes in ["y", "Y", "yes", "YES"] {
            assert_eq!(judge("gateway x", Some(yes)), Ok(()), "{yes}");
        }
        for no in ["", "n", "no", "yeah", "yes please"] {
            assert!(judge("gateway x", Some(no)).is_err_and(|refusal| refusal.problem.contains("nothing")), "{no:?}");
        }
        let nobody = judge("gateway x", None);
        assert!(nobody.is_err_and(|refusal| refusal.remedy.contains("--yes")), "nobody can be asked");
        assert!(confirm(&ConfirmArgs { yes: true }, "gateway x").is_ok());
    }
}
