//! Resamples one channel of sound from any rate to 48 kHz, piece by piece.

use std::f64::consts::PI;

use super::RATE;

/// Zero crossings of the kernel on either side, at the lower of the two rates.
const CROSSINGS: f64 = 16.0;

/// Steps of the kernel's table between two input samples. Their error is far below what Opus leaves of speech.
const STEPS: usize = 512;

/// A windowed sinc: frequencies above half of the lower rate are cut off, and not aliased into what is heard.
pub struct Resampler {
    rate: u64,
    /// Input samples on either side that contribute to an output sample.
    reach: usize,
    kernel: Vec<f32>,
    /// Input that is still needed; its first sample is number `start - reach` of the sound.
    held: Vec<f32>,
    start: u64,
    taken: u64,
    given: u64,
}

impl Resampler {
    /// `rate` is in samples per second and not 0.
    pub fn new(rate: u32) -> Self {
        let ratio = (f64::from(RATE) / f64::from(rate)).min(1.0);
        let reach = (CROSSINGS / ratio).ceil();
        // A little below the half of the rate, because of the kernel's slope.
        let cutoff = ratio * 0.95;
        let weight = |step: usize| {
            let time = step as f64 / STEPS as f64;
            let angle = PI * cutoff * time;
            let sinc = if step == 0 { 1.0 } else { angle.sin() / angle };
            let window = (PI * time / (2.0 * reach)).cos().powi(2);
            (cutoff * sinc * window) as f32
        };
        let reach = reach as usize;
        Self {
            rate: u64::from(rate),
            reach,
            kernel: (0..=reach * STEPS).map(weight).collect(),
            held: vec![0.0; reach],
            start: 0,
            taken: 0,
            given: 0,
        }
    }

    /// Takes input, and appends the output that it completes to `out`.
    pub fn push(&mut self, samples: &[f32], out: &mut Vec<f32>) {
        self.taken += samples.len() as u64;
        if self.rate == u64::from(RATE) {
            self.given = self.taken;
            out.extend_from_slice(samples);
            return;
        }
        self.held.extend_from_slice(samples);
        self.give(self.length(), out);
    }

    /// Appends the rest of the sound.
    pub fn finish(&mut self, out: &mut Vec<f32>) {
        if self.given < self.length() {
            self.held.resize(self.held.len() + 2 * self.reach, 0.0);
            self.give(self.length(), out);
        }
    }

    /// How long the sound is so far, in output samples.
    fn length(&self) -> u64 {
        (self.taken * u64::from(RATE)).div_ceil(self.rate)
    }

    fn give(&mut self, until: u64, out: &mut Vec<f32>) {
        while self.given < until {
            let time = self.given * self.rate;
            let place = time / u64::from(RATE);
            // Index in `held` of the sample before this point in time.
            let at = (place - self.start) as usize + self.reach;
            if at + self.reach >= self.held.len() {
                break;
            }
            let grain = ((time % u64::from(RATE)) * STEPS as u64 / u64::from(RATE)) as usize;
            let past = (0..self.reach).map(|n| self.held[at - n] * self.kernel[n * STEPS + grain]);
            let coming = (0..self.reach).map(|n| self.held[at + 1 + n] * self.kernel[(n + 1) * STEPS - grain]);
            out.push(past.sum::<f32>() + coming.sum::<f32>());
            self.given += 1;
        }
        let next = self.given * self.rate / u64::from(RATE);
        let done = ((next - self.start) as usize).min(self.held.len().saturating_sub(self.reach));
        self.held.drain(..done);
        self.start += done as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tone_stays_as_it_is_at_any_rate_and_in_any_pieces() {
        for rate in [8_000, 16_000, 22_050, 44_100, 48_000, 96_000] {
            let tone = |time: f64| (2.0 * PI * 440.0 * time).sin() as f32;
            let sound: Vec<f32> = (0..rate).map(|n| tone(f64::from(n) / f64::from(rate))).collect();
            for piece in [1, 777, rate as usize] {
                let (mut resampler, mut out) = (Resampler::new(rate), Vec::new());
                for piece in sound.chunks(piece) {
                    resampler.push(piece, &mut out);
                }
                resampler.finish(&mut out);
                assert_eq!(out.len(), RATE as usize, "{rate}");
                for (n, sample) in out.iter().enumerate().skip(1_000).take(46_000) {
                    let expected = tone(n as f64 / f64::from(RATE));
                    assert!((sample - expected).abs() < 0.02, "{rate}: {n}: {sample} and not {expected}");
                }
            }
        }
    }

    #[test]
    fn what_is_above_hearing_is_not_folded_back() {
        let (mut resampler, mut out) = (Resampler::new(96_000), Vec::new());
        let sound: Vec<f32> =
            (0..96_000).map(|n| (2.0 * PI * 40_000.0 * f64::from(n) / 96_000.0).sin() as f32).collect();
        resampler.push(&sound, &mut out);
        assert!(out.iter().skip(1_000).all(|sample| sample.abs() < 0.01));
    }
}
