//! `gateway`: one binary that runs a node, the network simulator, or a whole development cluster. The library exists
//! only for the binary and for [`fuzz`].

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
mod stop;
mod telemetry;
#[cfg(feature = "testnet")]
mod test_network;
mod traces;
mod trust;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use raft::failpoint;
use raft::transport::STACK_BYTES;

use cli::{Cli, Command, ConfigCommand, ConfigSource};
use config::Config;
use operator::Verdict;
use refusal::Refusal;

/// Runs the command line and returns the exit code of the process.
pub fn main() -> ExitCode {
    match execute(Cli::parse()) {
        Ok(verdict) => match console::all_said() {
            Ok(()) => ExitCode::from(verdict as u8),
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
        Command::Run(source) => on_threads(request_threads(config::cores()), run::run(configured(&source)?))?,
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
        #[cfg(feature = "testnet")]
        Command::TestNetwork(args) => {
            telemetry::init_logs(&config::Log::default())?;
            in_runtime(test_network::run(args))?;
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

/// Number of threads that serve a node's requests, on a machine with `cores` cores. When Raft's own threads occupy all
/// cores, one thread is enough: a second would be woken repeatedly to steal work from the first, and ready tasks can
/// share frames and log entries only with tasks of their own thread.
fn request_threads(cores: usize) -> usize {
    // In a build for tests, a task paused at a failpoint is released by a request, which needs a thread of its own.
    let least = if failpoint::COMPILED { 2 } else { 1 };
    if cores > assembly::RAFT_THREADS { cores } else { least }
}

fn in_runtime<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    on_threads(config::cores(), work)
}

fn on_threads<T>(threads: usize, work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    // The process has a single crypto provider: reqwest is built without one.
    let _already_there = rustls::crypto::ring::default_provider().install_default();
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(threads).enable_all().thread_stack_size(STACK_BYTES).build()?;
    let outcome = runtime.block_on(work);
    // Background tasks still running were either told to stop or are no longer needed.
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    outcome
}

/// Loads and validates the configuration.
fn configured(source: &ConfigSource) -> Result<Config, Refusal> {
    let config = match source.config.as_deref() {
        None => config::load::without_file(std::env::vars(), &source.set)?,
        file => config::load::load(file, std::env::vars(), &source.set)?,
    };
    config::validate::validate(&config)?;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_a_thread_for_each_core_and_few_where_rafts_fill_them() {
        let few = request_threads(1);
        assert!(few <= 2);
        assert_eq!([assembly::RAFT_THREADS, 3, 8].map(request_threads), [few, 3, 8]);
    }
}
