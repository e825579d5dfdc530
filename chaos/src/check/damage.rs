//! I11: damaged data on disk is detected and refused, never served.

use super::verdict::Finding;
use crate::history::{Collected, Record};

pub fn judge(run: &Collected, finding: &mut Finding) {
    let damages = run.records.iter().filter_map(|record| match record {
        Record::Damage(damage) => Some(damage),
        _ => None,
    });
    let (mut done, mut refused, mut harmless) = (0, 0, 0);
    for damage in damages {
        done += 1;
        match &damage.refused {
            Some(_) => refused += 1,
            None if damage.harmless => harmless += 1,
            None => finding.violated(
                "a node ran on damaged files",
                [format!("node {} at {}: {}", damage.node, damage.at, damage.what)],
            ),
        }
    }
    finding.judged(done - harmless);
    finding.count(format!("{done} damages, {refused} refused, {harmless} where nothing is lost"));
}
