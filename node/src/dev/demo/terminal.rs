//! What the demo looks like: headings, notes and QR codes, coloured on a terminal alone.

use qrcode::QrCode;
use qrcode::render::unicode::Dense1x2;

use crate::console::{is_coloured, say};

/// Standard output, and whether it shows colours.
#[derive(Clone, Copy, Debug)]
pub struct Terminal {
    coloured: bool,
}

impl Terminal {
    pub fn detect() -> Self {
        Self { coloured: is_coloured() }
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.coloured { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// A step of the demo begins.
    pub fn step(self, number: usize, text: &str) {
        say(format!("\n{} {}", self.paint("1;36", &format!("{number}.")), self.paint("1", text)));
    }

    /// What came of it.
    pub fn note(self, label: &str, text: &str) {
        say(format!("   {} {text}", self.paint("2", &format!("{label:<10}"))));
    }

    pub fn good(self, label: &str, text: &str) {
        say(format!("   {} {}", self.paint("2", &format!("{label:<10}")), self.paint("32", text)));
    }

    pub fn bad(self, label: &str, text: &str) {
        say(format!("   {} {}", self.paint("2", &format!("{label:<10}")), self.paint("31", text)));
    }

    pub fn heading(self, text: &str) {
        say(format!("\n{}", self.paint("1", text)));
    }

    /// A command to copy, with what it does.
    pub fn command(self, what: &str, command: &str) {
        say(format!("  {}\n  {command}\n", self.paint("2", &format!("# {what}"))));
    }

    /// A QR code of half blocks, two rows of modules in a line.
    ///
    /// # Errors
    /// When the text is too long for a QR code.
    pub fn qr(self, text: &str) -> anyhow::Result<()> {
        let code = QrCode::with_error_correction_level(text, qrcode::EcLevel::L)?;
        let mut renderer = code.render::<Dense1x2>();
        if !self.coloured {
            // Most terminals and logs show light on dark: draw the light modules.
            renderer.dark_color(Dense1x2::Light).light_color(Dense1x2::Dark);
        }
        for line in renderer.build().lines() {
            say(format!("   {}", self.paint("30;107", line)));
        }
        Ok(())
    }
}
