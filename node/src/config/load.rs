//! Loads a configuration from the file, then the environment, then flags. Errors name the key that is wrong.
//!
//! Everything is read through one table: each additional way of reading or writing these types with the TOML library
//! would be compiled for every one of them.

use std::path::Path;

use toml::{Table, Value};

use super::Config;
use crate::refusal::{Refusal, ensure};

/// `GATEWAY__API__LISTEN` sets `api.listen`.
const ENV_PREFIX: &str = "GATEWAY__";

/// Hints for parse errors that do not say what a valid value looks like: the end of the error message, and an example.
const EXAMPLES: [(&str, &str); 3] = [
    ("expected a duration", "as in 10s, 5m or 1h 30m"),
    ("invalid socket address syntax", "as in 0.0.0.0:8080"),
    ("invalid IP address syntax", "as in 10.20.0.0/16"),
];

/// A key that is set outside the file.
#[derive(Clone, Debug)]
struct Override {
    /// Name of the variable or flag that sets the key.
    origin: String,
    path: Vec<String>,
    text: String,
}

/// Reads the file, if any, and applies the environment and then the flags (`key=value`) to it.
///
/// # Errors
/// A [`Refusal`] that names the key, variable, flag or path. Values are parsed, but not validated.
pub fn load(
    file: Option<&Path>,
    environment: impl IntoIterator<Item = (String, String)>,
    flags: &[String],
) -> Result<Config, Refusal> {
    let table = match file {
        Some(path) => read(path)?,
        None => Table::new(),
    };
    let mut overrides: Vec<Override> = environment.into_iter().filter_map(from_variable).collect();
    overrides.sort_by(|a, b| a.origin.cmp(&b.origin));
    for flag in flags {
        overrides.push(from_flag(flag)?);
    }
    assemble(table, &overrides, file)
}

/// Like [`load`] without a file, which is rarely intended: if neither variables nor flags are set, the error explains
/// how to name a file.
///
/// # Errors
/// As [`load`].
pub fn without_file(
    environment: impl IntoIterator<Item = (String, String)>,
    flags: &[String],
) -> Result<Config, Refusal> {
    let environment: Vec<(String, String)> =
        environment.into_iter().filter(|(name, _)| name.starts_with(ENV_PREFIX)).collect();
    let remedy = "name a file with --config or GATEWAY_CONFIG; gateway config example prints one to begin with, and \
                  gateway init writes one";
    ensure(!environment.is_empty() || !flags.is_empty(), "configuration", "none was given", remedy)?;
    load(None, environment, flags)
}

/// Applies flags (`key=value`) to an existing configuration.
///
/// # Errors
/// As [`load`].
pub fn lay_over(config: &Config, flags: &[String]) -> Result<Config, Refusal> {
    let text = toml::to_string(config)
        .map_err(|error| Refusal::new("configuration", error, "report this: a configuration is a table"))?;
    let overrides: Vec<Override> = flags.iter().map(|flag| from_flag(flag)).collect::<Result<_, _>>()?;
    assemble(table(&text, "configuration")?, &overrides, None)
}

fn read(path: &Path) -> Result<Table, Refusal> {
    let subject = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Refusal::new(&subject, error, "name a readable file with --config"))?;
    table(&text, &subject)
}

/// Parses the text of a configuration file; `subject` names it in refusals.
///
/// # Errors
/// As [`load`].
pub fn parse(text: &str, subject: &str) -> Result<Config, Refusal> {
    assemble(table(text, subject)?, &[], None)
}

fn table(text: &str, subject: &str) -> Result<Table, Refusal> {
    text.parse::<Table>().map_err(|error| {
        // Counts bytes, because the span may begin within a character.
        let before = |start: usize| text.bytes().take(start).filter(|byte| *byte == b'\n').count();
        let line = error.span().map_or(1, |span| before(span.start) + 1);
        Refusal::new(format!("{subject}:{line}"), error.message(), "correct the TOML there")
    })
}

fn from_variable((name, text): (String, String)) -> Option<Override> {
    let path: Vec<String> = name.strip_prefix(ENV_PREFIX)?.split("__").map(str::to_ascii_lowercase).collect();
    Some(Override { origin: name, path, text })
}

fn from_flag(flag: &str) -> Result<Override, Refusal> {
    let origin = format!("--set {flag}");
    let Some((key, text)) = flag.split_once('=') else {
        return Err(Refusal::new(origin, "no \"=\"", "write --set section.key=value"));
    };
    let path = key.trim().split('.').map(str::to_owned).collect();
    Ok(Override { origin, path, text: text.to_owned() })
}

/// Parses the text of an override as TOML if it is valid TOML (`8`, `true`, `["10.0.0.0/8"]`), otherwise as a plain
/// string. A string key with a value that looks like a number fails with a type error, and is then parsed again as a
/// string.
fn assemble(base: Table, overrides: &[Override], file: Option<&Path>) -> Result<Config, Refusal> {
    let mut plain = vec![false; overrides.len()];
    loop {
        let mut table = base.clone();
        for (item, plain) in overrides.iter().zip(&plain) {
            insert(&mut table, item, *plain)?;
        }
        let error = match serde_path_to_error::deserialize::<_, Config>(Value::Table(table)) {
            Ok(config) => return Ok(Config { network: config.network.settled(), ..config }),
            Err(error) => error,
        };
        let key = error.path().to_string();
        let message = error.inner().message().to_owned();
        let unknown = message.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next());
        let culprit = overrides.iter().rposition(|item| {
            let path = item.path.join(".");
            let is_within = key.starts_with(&format!("{path}.")) || key.starts_with(&format!("{path}["));
            // serde reports an unknown section without the key that was set in it.
            let is_around = unknown.is_some_and(|name| item.path.iter().any(|part| part == name));
            path == key || is_within || is_around && path.starts_with(&format!("{key}."))
        });
        match culprit {
            Some(index) if !plain[index] && message.starts_with("invalid type") => plain[index] = true,
            culprit => {
                return Err(explain(&key, &message, culprit.map(|index| overrides[index].origin.as_str()), file));
            }
        }
    }
}

fn insert(table: &mut Table, item: &Override, plain: bool) -> Result<(), Refusal> {
    let value = match item.text.parse::<Value>() {
        Ok(value) if !plain => value,
        _ => Value::String(item.text.clone()),
    };
    let named = item.path.split_last().filter(|_| item.path.iter().all(|part| !part.is_empty()));
    let Some((key, sections)) = named else {
        return Err(Refusal::new(&item.origin, "names no key", "write section.key=value"));
    };
    let mut place = table;
    for section in sections {
        let entry = place.entry(section.clone()).or_insert_with(|| Value::Table(Table::new()));
        let Value::Table(inner) = entry else {
            return Err(Refusal::new(&item.origin, format!("\"{section}\" is a value, not a section"), "name a key"));
        };
        place = inner;
    }
    place.insert(key.clone(), value);
    Ok(())
}

/// Converts a serde error into a line for the operator.
fn explain(path: &str, message: &str, origin: Option<&str>, file: Option<&Path>) -> Refusal {
    let message = message.lines().next().unwrap_or_default();
    let place = || match (origin, file) {
        (Some(origin), _) => origin.to_owned(),
        (None, Some(file)) => file.display().to_string(),
        (None, None) => "the configuration".to_owned(),
    };
    let inside = |name: &str| match path.strip_suffix(name) {
        // serde's path of an unknown key ends either with the key itself or with its section.
        Some(section) if section.is_empty() || section.ends_with('.') => path.to_owned(),
        _ if path == "." || path.is_empty() => name.to_owned(),
        _ => format!("{path}.{name}"),
    };
    if let Some(rest) = message.strip_prefix("unknown field ") {
        let mut names = rest.split('`').skip(1).step_by(2);
        let unknown = names.next().unwrap_or_default();
        let known: Vec<&str> = names.collect();
        let remedy = match nearest(unknown, &known) {
            Some(name) => format!("did you mean \"{name}\"?"),
            None => format!("known here: {}", known.join(", ")),
        };
        return Refusal::new(inside(unknown), format!("unknown key in {}", place()), remedy);
    }
    if let Some(rest) = message.strip_prefix("missing field ") {
        let name = rest.trim_matches('`');
        let section = path.trim_matches('.');
        let key = if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") };
        let remedy = format!("set it there or as {ENV_PREFIX}{}", key.to_ascii_uppercase().replace('.', "__"));
        return Refusal::new(key, format!("missing in {}", place()), remedy);
    }
    // Names of Rust types mean nothing to the operator.
    let message = match message.split_once("expected struct ") {
        Some((said, _)) => format!("{said}expected a table"),
        None => message.to_owned(),
    };
    let remedy = match EXAMPLES.iter().find(|(end, _)| message.ends_with(*end)) {
        Some((_, example)) => format!("write it in {} {example}", place()),
        None => format!("correct it in {}", place()),
    };
    Refusal::new(path, message, remedy)
}

/// The known name that is most similar to an unknown one.
fn nearest<'a>(unknown: &str, known: &[&'a str]) -> Option<&'a str> {
    known
        .iter()
        .map(|name| (strsim::jaro_winkler(unknown, name), *name))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}
