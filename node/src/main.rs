//! `gateway`: one binary that is a node, the network simulator, or a whole development cluster.

mod cli;
mod config;
mod refusal;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command, ConfigCommand, ConfigSource};
use config::Config;
use refusal::Refusal;

fn main() -> ExitCode {
    match execute(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gateway: {error:#}");
            ExitCode::from(if error.is::<Refusal>() { Refusal::EXIT_CODE } else { 1 })
        }
    }
}

fn execute(cli: Cli) -> anyhow::Result<()> {
    match cli.command {
        Command::Config(ConfigCommand::Example) => {
            print!("{}", config::EXAMPLE);
            Ok(())
        }
        Command::Config(ConfigCommand::Check(source)) => {
            let config = configured(&source)?;
            config::files::check(&config)?;
            println!("ok");
            Ok(())
        }
        Command::Run(source) => {
            let _ = configured(&source)?;
            anyhow::bail!("not wired yet")
        }
        Command::Simulator(_) | Command::Dev(_) => anyhow::bail!("not wired yet"),
    }
}

/// Reads and judges the configuration.
fn configured(source: &ConfigSource) -> Result<Config, Refusal> {
    let config = config::load::load(source.config.as_deref(), std::env::vars(), &source.set)?;
    config::validate::validate(&config)?;
    Ok(config)
}
