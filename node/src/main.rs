//! The binary `gateway`; see the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    gateway::main()
}
