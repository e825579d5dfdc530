//! Rows of media, the references to their bytes, and what is due when.

pub mod apply;
pub mod command;
pub mod record;
