
pub mod webhook;
