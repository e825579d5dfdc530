//! Which network the channels of a test program are on: the simulated one, or the real one's protocol on this machine.

use std::sync::OnceLock;

static WHATSAPP: OnceLock<bool> = OnceLock::new();

/// The channels of this program are on the real network's protocol: of its binary and its addresses, too.
pub fn choose_whatsapp() {
    WHATSAPP.set(true).or(if is_whatsapp() { Ok(()) } else { Err(()) }).expect("the network is chosen first");
}

/// Whether they are: chosen by the program, or by `NETWORK=whatsapp` for any of the others.
pub fn is_whatsapp() -> bool {
    *WHATSAPP.get_or_init(|| std::env::var("NETWORK").is_ok_and(|name| name == "whatsapp"))
}

/// What the addresses of people end with.
pub fn phone_suffix() -> &'static str {
    if is_whatsapp() { "s.whatsapp.net" } else { "s.example" }
}

/// The program under test: with the driver and its test network it is another one, which `make whatsapp` builds.
pub fn program() -> &'static str {
    if is_whatsapp() { "gateway-whatsapp" } else { "gateway" }
}
