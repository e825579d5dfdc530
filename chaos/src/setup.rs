//! The configuration of a run.

use std::path::{Path, PathBuf};

use raft::failpoint;

use crate::mutation::Bug;
use crate::schedule::profile::Profile;
use crate::schedule::{Plan, Schedule};
use crate::workload::Pace;

/// The configuration of a run.
#[derive(Clone, Debug)]
pub struct Setup {
    pub profile: Profile,
    /// The schedule. Its seed determines the workload, too.
    pub schedule: Schedule,
    pub pace: Pace,
    /// Bugs of the product that are active at every node whenever it runs; the checks must find them.
    pub bugs: Vec<Bug>,
    /// Folder for everything that is known of the run. It must not exist, and is created.
    pub folder: PathBuf,
    /// Command line arguments for the schedule.
    arguments: String,
}

impl Setup {
    /// A run with a schedule drawn from a seed.
    pub fn new(seed: u64, profile: Profile, folder: PathBuf) -> Self {
        let arguments = format!("--seed {seed} {}", profile.arguments);
        Self::of(Schedule::of(seed, &profile), profile, arguments, folder)
    }

    /// A run with a schedule read from a file.
    pub fn played(plan: Plan, file: &Path, folder: PathBuf) -> Self {
        let arguments = format!("--schedule {}", file.display());
        Self::of(plan.schedule, Profile::named(&plan.profile), arguments, folder)
    }

    fn of(schedule: Schedule, profile: Profile, arguments: String, folder: PathBuf) -> Self {
        let pace = Pace { channels: profile.channels, neighbours: schedule.needs_neighbours(), ..Pace::default() };
        Self { profile, schedule, pace, bugs: Vec::new(), folder, arguments }
    }

    /// The command that repeats the run.
    pub fn again(&self) -> String {
        let bugs: String = self.bugs.iter().map(|bug| format!(" --bug {}", bug.as_str())).collect();
        format!("gateway-chaos run {}{bugs}", self.arguments)
    }

    /// Environment variables of the nodes.
    pub fn environment(&self) -> Vec<(String, String)> {
        if self.bugs.is_empty() {
            return Vec::new();
        }
        let armed: Vec<String> = self.bugs.iter().map(|bug| format!("{}=return", bug.as_str())).collect();
        vec![(failpoint::VARIABLE.to_owned(), armed.join(";"))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_the_bugs_that_are_put_back_and_the_command_says_which() {
        let mut setup = Setup::new(7, Profile::quick(), PathBuf::new());
        assert_eq!(
            (setup.environment(), setup.again().as_str()),
            (vec![], "gateway-chaos run --seed 7 --profile quick")
        );
        setup.bugs = vec![Bug::SkipFsync, Bug::ReverseOutbox];
        let armed = "bug::skip_fsync=return;bug::reverse_outbox=return";
        assert_eq!(setup.environment(), [("FAILPOINTS".to_owned(), armed.to_owned())]);
        let again = "gateway-chaos run --seed 7 --profile quick --bug bug::skip_fsync --bug bug::reverse_outbox";
        assert_eq!(setup.again(), again);
    }
}
