//! Rows of media, the references to their bytes, and their due times.

pub mod apply;
pub mod command;
pub mod record;
