//! Which network the channels of a test program use: the simulated one, or the real one's protocol on this machine.

use std::sync::OnceLock;

static WHATSAPP: OnceLock<bool> = OnceLock::new();

/// Whether the channels of this program use the real network's protocol. The test program `whatsapp` does;
/// `NETWORK=whatsapp` turns it on for other programs, and another value turns it off for all. Program and addresses
/// differ, too.
pub fn is_whatsapp() -> bool {
    *WHATSAPP.get_or_init(|| {
        let program = std::env::current_exe().ok();
        let program = program.as_ref().and_then(|path| path.file_name()).and_then(|name| name.to_str());
        let is_its_own = program.is_some_and(|name| name == "whatsapp" || name.starts_with("whatsapp-"));
        std::env::var("NETWORK").map_or(is_its_own, |name| name == "whatsapp")
    })
}

/// The domain of people's addresses.
pub fn phone_suffix() -> &'static str {
    if is_whatsapp() { "s.whatsapp.net" } else { "s.example" }
}

/// The domain of groups' addresses.
pub fn group_suffix() -> &'static str {
    if is_whatsapp() { "g.us" } else { "g.example" }
}

/// The site of invite links to groups.
pub fn invite_site() -> &'static str {
    if is_whatsapp() { "chat.whatsapp.com" } else { "chat.g.example" }
}

/// The name of the program under test: with the driver it is another one, built by `make whatsapp`.
pub fn program() -> &'static str {
    if is_whatsapp() { "gateway-whatsapp" } else { "gateway" }
}
