//! Entry points for fuzzing: parsing and validating configurations. A panic is a finding.

use crate::config::{EXAMPLE, load, validate};

/// Parses and validates the text of a configuration file.
pub fn configuration(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match load::parse(text, "fuzz") {
        Ok(config) => {
            let _ = validate::validate(&config);
        }
        Err(refusal) => assert!(!refusal.to_string().contains('\n'), "{refusal}"),
    }
}

/// Seed corpus: the example configuration.
pub fn examples() -> Vec<Vec<u8>> {
    vec![EXAMPLE.as_bytes().to_vec()]
}
