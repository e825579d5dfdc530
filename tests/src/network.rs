//! Which network the channels of a test program are on: the simulated one, or the real one's protocol on this machine.

use std::sync::OnceLock;

static WHATSAPP: OnceLock<bool> = OnceLock::new();

/// Whether the channels of this program are on the real network's protocol: those of the test program `whatsapp`, and by
/// `NETWORK=whatsapp` those of any other, or by another word none. Its binary and its addresses are others, too.
pub fn is_whatsapp() -> bool {
    *WHATSAPP.get_or_init(|| {
        let program = std::env::current_exe().ok();
        let program = program.as_ref().and_then(|path| path.file_name()).and_then(|name| name.to_str());
        let is_its_own = program.is_some_and(|name| name == "whatsapp" || name.starts_with("whatsapp-"));
        std::env::var("NETWORK").map_or(is_its_own, |name| name == "whatsapp")
    })
}

/// What the addresses of people end with.
pub fn phone_suffix() -> &'static str {
    if is_whatsapp() { "s.whatsapp.net" } else { "s.example" }
}

/// What the addresses of groups end with.
pub fn group_suffix() -> &'static str {
    if is_whatsapp() { "g.us" } else { "g.example" }
}

/// Where invites into groups lead.
pub fn invite_site() -> &'static str {
    if is_whatsapp() { "chat.whatsapp.com" } else { "chat.g.example" }
}

/// The program under test: with the driver and its test network it is another one, which `make whatsapp` builds.
pub fn program() -> &'static str {
    if is_whatsapp() { "gateway-whatsapp" } else { "gateway" }
}
