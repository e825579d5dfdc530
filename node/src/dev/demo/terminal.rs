//! Output of the demo: headings, notes and QR codes, with colors on a terminal only.

use qrcode::QrCode;
use qrcode::render::unicode::Dense1x2;

use crate::console::{is_coloured, say};

/// Standard output, and whether it shows colors.
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

    /// Prints the heading of a step.
    pub fn step(self, number: usize, text: &str) {
        say(format!("\n{} {}", self.paint("1;36", &format!("{number}.")), self.paint("1", text)));
    }

    /// Prints a result of a step.
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

    /// Prints a command to copy, with its purpose.
    pub fn command(self, what: &str, command: &str) {
        say(format!("  {}\n  {command}\n", self.paint("2", &format!("# {what}"))));
    }

    /// Prints a QR code in half-block characters, two rows of modules per line.
    ///
    /// # Errors
    /// The text is too long for a QR code.
    pub fn qr(self, text: &str) -> anyhow::Result<()> {
        let code = QrCode::with_error_correction_level(text, qrcode::EcLevel::L)?;
        let mut renderer = code.render::<Dense1x2>();
        if !self.coloured {
            // Most terminals and logs show light text on a dark background, so the light modules are drawn.
            renderer.dark_color(Dense1x2::Light).light_color(Dense1x2::Dark);
        }
        for line in renderer.build().lines() {
            say(format!("   {}", self.paint("30;107", line)));
        }
        Ok(())
    }
}
