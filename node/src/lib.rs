//! `gateway`: one binary that is a node, the network simulator, or a whole development cluster.
//!
//! A library for its two users alone: the binary, and [`fuzz`].

mod assembly;
mod backup;
mod caller;
mod certificate;
mod cli;
mod config;
mod configured;
pub mod console;
mod data_folder;
mod dev;
pub mod fuzz;
mod joining;
mod key_files;
mod operator;
mod operator_tokens;
mod peer_certificate;
mod pki;
mod receiving;
mod refusal;
mod run;
mod simulator;
mod telemetry;
mod traces;
mod trust;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use raft::transport::STACK_BYTES;

use cli::{Cli, Command, ConfigCommand, ConfigSource};
use config::Config;
use operator::Verdict;
use refusal::Refusal;

/// What the binary does.
pub fn main() -> ExitCode {
    match execute(Cli::parse()) {
        Ok(verdict) => match console::all_said() {
            Ok(()) => ExitCode::from(verdict.exit_code()),
            Err(error) => {
                console::warn(format_args!("gateway: standard output: {error}; not all of the answer was written"));
                ExitCode::FAILURE
            }
        },
        Err(error) => {
            console::warn(format_args!("gateway: {error:#}"));
            ExitCode::from(if error.is::<Refusal>() { Refusal::EXIT_CODE } else { 1 })
        }
    }
}

fn execute(cli: Cli) -> anyhow::Result<Verdict> {
    match cli.command {
        Command::Config(ConfigCommand::Example) => console::say(config::EXAMPLE.trim_end()),
        Command::Config(ConfigCommand::Check(source)) => {
            let config = configured(&source)?;
            config::files::check(&config)?;
            console::say("ok");
        }
        Command::Run(source) => in_runtime(run::run(configured(&source)?))?,
        Command::Init(args) => joining::init::run(&args)?,
        Command::Join(args) => in_runtime(async move { joining::ask::run(&args).await })?,
        Command::Backup(args) => return in_runtime(backup::run(*args)),
        Command::Restore(args) => {
            in_runtime(async move { tokio::task::spawn_blocking(move || backup::restore::run(&args)).await? })?;
        }
        Command::Simulator(args) => {
            telemetry::init_logs(&config::Log::default())?;
            in_runtime(simulator::run(args))?;
        }
        Command::Dev(args) => in_runtime(dev::run(*args))?,
        Command::Listen(args) => in_runtime(receiving::listen::run(*args))?,
        Command::Trigger(args) => in_runtime(receiving::trigger::run(*args))?,
        Command::Operator(command) => return in_runtime(operator::run(command)),
        Command::Completions { shell } => {
            let mut written = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "gateway", &mut written);
            console::say(String::from_utf8_lossy(&written).trim_end());
        }
    }
    Ok(Verdict::Well)
}

fn in_runtime<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    // The one crypto provider of the process: reqwest is built without one of its own.
    let _already_there = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(STACK_BYTES).build()?;
    let outcome = runtime.block_on(work);
    // What still runs in the background was told to end, or is no longer wanted.
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    outcome
}

/// Reads and judges the configuration.
fn configured(source: &ConfigSource) -> Result<Config, Refusal> {
    let config = match source.config.as_deref() {
        None => config::load::without_file(std::env::vars(), &source.set)?,
        file => config::load::load(file, std::env::vars(), &source.set)?,
    };
    config::validate::validate(&config)?;
    Ok(config)
}
