//! Arguments of the commands for customers, their members and their keys.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use uuid::Uuid;

use super::operator::{OperatorArgs, id};

#[derive(Debug, Subcommand)]
pub enum CustomerCommand {
    /// Create a customer with its first API key, which is shown only once
    #[command(after_help = "Examples:\n  \
            gateway customer create \"Acme Ltd\"\n  \
            gateway customer create Acme plan.channel_limit=5 \\\n      \
            limits.customer.burst=200 limits.customer.refill_per_second=10\n  \
            gateway customer create Acme --json | jq -r .api_key.secret")]
    Create {
        /// Its name
        name: String,
        /// Its e-mail address
        #[arg(long, value_name = "ADDRESS")]
        email: Option<String>,
        #[command(flatten)]
        limits: LimitsArgs,
        #[command(flatten)]
        operator: OperatorArgs,
    },
    /// List the customers, the newest first
    #[command(after_help = "Examples:\n  \
            gateway customer list\n  \
            gateway customer list --json | jq '.data[] | select(.plan.overdue_since)'")]
    List(OperatorArgs),
    /// Change the plan and the limits of a customer
    #[command(
        after_help = "Each KEY is one of the plan or of the limits, as GET /v1/admin/customers/{id} shows them; null \
            restores the default. Give both parts of a bucket.\n\n\
            Examples:\n  \
            gateway customer limit 0198c6a2-0d3b-7a57-a1f0-5a5e9d7c6b11 \\\n      \
            plan.channel_limit=20\n  \
            gateway customer limit 0198c6a2-0d3b-7a57-a1f0-5a5e9d7c6b11 \\\n      \
            limits.customer=null\n  \
            gateway customer limit 0198c6a2-0d3b-7a57-a1f0-5a5e9d7c6b11 \\\n      \
            limits.channel.burst=100 limits.channel.refill_per_second=5"
    )]
    Limit {
        /// The customer
        #[arg(value_parser = id)]
        id: Uuid,
        #[command(flatten)]
        limits: LimitsArgs,
        #[command(flatten)]
        operator: OperatorArgs,
    },
    /// Refuse a customer's sends and new channels from now on; it can still read
    #[command(
        after_help = "Its payment counts as overdue: sends, stories and new channels answer 402 payment_overdue, and \
            channels stay connected.\n\n\
            Examples:\n  \
            gateway customer suspend 0198c6a2-0d3b-7a57-a1f0-5a5e9d7c6b11\n  \
            gateway customer suspend 0198c6a2-0d3b-7a57-a1f0-5a5e9d7c6b11 --lift"
    )]
    Suspend {
        /// The customer
        #[arg(value_parser = id)]
        id: Uuid,
        /// Let it send again
        #[arg(long)]
        lift: bool,
        #[command(flatten)]
        operator: OperatorArgs,
    },
}

/// What of a customer is set, by name.
#[derive(Args, Clone, Debug)]
pub struct LimitsArgs {
    /// What to set, as in plan.channel_limit=5
    #[arg(value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub enum UserCommand {
    /// Create a member of a customer
    #[command(after_help = "Without --password-file a password is generated and shown only once.\n\n\
            Examples:\n  \
            gateway user create 0198c6a2-0d3b-7a57-a1f0-5a5e9d7c6b11 ann@example.com\n  \
            gateway user create 0198c6a2-0d3b-7a57-a1f0-5a5e9d7c6b11 ann@example.com \\\n      \
            --role member --password-file password")]
    Create(UserCreateArgs),
}

#[derive(Args, Debug)]
pub struct UserCreateArgs {
    /// The customer
    #[arg(value_parser = id)]
    pub customer: Uuid,
    /// The e-mail address with which the member signs in
    pub email: String,
    /// The member's role: owner, admin, member or viewer [default: owner]
    #[arg(long, value_name = "ROLE")]
    pub role: Option<String>,
    /// The file that holds the password, at least 12 characters; - for standard input
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    #[command(flatten)]
    pub operator: OperatorArgs,
}

#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Revoke an API key: when this command returns, no node accepts it any more
    #[command(after_help = "Examples:\n  \
            gateway key revoke zpk_a1b2c3d4\n  \
            gateway key revoke 0198c6a2-0d3b-7a57-a1f0-5a5e9d7c6b11")]
    Revoke {
        /// The key, by the prefix that gateway keys shows, or by its id
        key: String,
        #[command(flatten)]
        operator: OperatorArgs,
    },
}
