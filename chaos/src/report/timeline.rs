//! Throughput and latency over a run as a picture, with the faults as bands behind them.

use std::collections::BTreeMap;

use anyhow::anyhow;
use hdrhistogram::Histogram;
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::history::{At, Call, Collected, Op};
use crate::run::faults::Done;
use crate::schedule::fault::Lane;

/// In pixels.
const WIDTH: u32 = 1_200;
const HEIGHT: u32 = 720;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws it as SVG.
///
/// # Errors
/// When it cannot be drawn.
pub fn draw(run: &Collected, faults: &[Done]) -> anyhow::Result<String> {
    let end = run.calls().map(|call| call.end).chain(faults.iter().map(|fault| fault.to)).max().unwrap_or_default();
    let mut svg = String::new();
    {
        let whole = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
        whole.fill(&WHITE).map_err(drawing)?;
        let (upper, lower) = whole.split_vertically(HEIGHT / 2);
        let buckets = buckets(run);
        let line = |of: &dyn Fn(&Bucket) -> Option<f64>| -> Vec<(f64, f64)> {
            buckets.iter().filter_map(|(at, bucket)| Some((*at as f64, of(bucket)?))).collect()
        };
        let accepted = line(&|bucket| Some(bucket.accepted as f64));
        let failed = line(&|bucket| Some(bucket.failed as f64));
        chart(&upper, "sends a second", end, faults, &[("accepted", accepted, GREEN), ("not accepted", failed, RED)])?;
        let quantile = |q: f64| line(&|bucket| bucket.latencies.as_ref().map(|all| all.value_at_quantile(q) as f64));
        let lines = [("p50", quantile(0.5), BLUE), ("p99", quantile(0.99), MAGENTA)];
        chart(&lower, "latency of accepted sends, ms", end, faults, &lines)?;
        whole.present().map_err(drawing)?;
    }
    Ok(svg)
}

/// What happened within a second.
#[derive(Default)]
struct Bucket {
    accepted: u64,
    failed: u64,
    /// In milliseconds; none where nothing was accepted.
    latencies: Option<Histogram<u64>>,
}

/// By the second in which a send was answered.
fn buckets(run: &Collected) -> BTreeMap<u64, Bucket> {
    let sends: Vec<&Call> = run.calls().filter(|call| matches!(call.op, Op::Send { .. })).collect();
    let second = |call: &Call| call.end.since(At::default()).as_secs();
    let end = sends.iter().map(|call| second(call)).max().map_or(0, |last| last + 1);
    // Seconds in which nothing happened are what is looked for.
    let mut buckets: BTreeMap<u64, Bucket> = (0..end).map(|second| (second, Bucket::default())).collect();
    for call in sends {
        let bucket = buckets.entry(second(call)).or_default();
        if !call.is_done() {
            bucket.failed += 1;
            continue;
        }
        bucket.accepted += 1;
        if bucket.latencies.is_none() {
            bucket.latencies = Histogram::new(3).ok();
        }
        if let Some(latencies) = &mut bucket.latencies {
            latencies.saturating_record(u64::try_from(call.end.since(call.begin).as_millis()).unwrap_or(u64::MAX));
        }
    }
    buckets
}

type Line<'a> = (&'a str, Vec<(f64, f64)>, RGBColor);

fn chart(area: &Area<'_>, caption: &str, end: At, faults: &[Done], lines: &[Line<'_>]) -> anyhow::Result<()> {
    let values = lines.iter().flat_map(|(_, points, _)| points.iter().map(|(_, value)| *value));
    let top = values.fold(1.0, f64::max) * 1.1;
    let mut chart = ChartBuilder::on(area)
        .caption(caption, ("sans-serif", 16))
        .margin(8)
        .x_label_area_size(30)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..seconds(end).max(1.0), 0.0..top)
        .map_err(drawing)?;
    chart.configure_mesh().light_line_style(WHITE).x_desc("seconds").draw().map_err(drawing)?;
    for (n, fault) in faults.iter().enumerate() {
        let (from, to) = (seconds(fault.from), seconds(fault.to));
        // Lanes above each other, as they overlap.
        let (bottom, color) = match fault.lane {
            Lane::Nodes => (0.0, RED),
            Lane::Network => (top / 3.0, BLUE),
            Lane::Operator => (top / 1.5, YELLOW),
        };
        let band = Rectangle::new([(from, bottom), (to, bottom + top / 3.0)], color.mix(0.15).filled());
        let number = Text::new((n + 1).to_string(), (from, bottom + top / 3.0), ("sans-serif", 11));
        chart.draw_series([band]).map_err(drawing)?;
        chart.draw_series([number]).map_err(drawing)?;
    }
    for (name, points, color) in lines {
        let color = *color;
        chart
            .draw_series(LineSeries::new(points.iter().copied(), color.stroke_width(2)))
            .map_err(drawing)?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2)));
    }
    chart.configure_series_labels().background_style(WHITE).border_style(BLACK).draw().map_err(drawing)
}

fn seconds(at: At) -> f64 {
    at.since(At::default()).as_secs_f64()
}

/// What a drawing says goes no further than its words.
fn drawing(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("the picture cannot be drawn: {error}")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use model::time::Timestamp;

    use super::*;
    use crate::history::{Answer, Evidence, Meta, Outcome, Record};
    use crate::schedule::fault::{Fault, Who};

    fn send(end: u64, outcome: Outcome) -> Record {
        let op = Op::Send { channel: "c".to_owned(), text: end.to_string() };
        let (begin, end) = (At::seconds(end), At::seconds(end));
        Record::Call(Call { client: 1, tenant: "t".to_owned(), node: 1, begin, end, op, outcome })
    }

    #[test]
    fn a_picture_shows_each_fault_by_its_number_and_a_second_without_sends_as_such() {
        let taken = || Outcome::Done(Answer::Nothing);
        let lost = Outcome::Unknown { why: "cut".to_owned() };
        let run = Collected {
            meta: Meta { seed: 1, started: Timestamp::now() },
            records: vec![send(0, taken()), send(0, taken()), send(3, lost)],
            evidence: Evidence::default(),
        };
        let counted: Vec<(u64, u64)> = buckets(&run).values().map(|bucket| (bucket.accepted, bucket.failed)).collect();
        assert_eq!(counted, [(2, 0), (0, 0), (0, 0), (0, 1)]);
        let (fault, lane) = (Fault::Kill(Who::All), Lane::Nodes);
        let fault = Done { fault, lane, from: At::seconds(1), to: At::seconds(2), problem: None };
        let svg = draw(&run, &[fault.clone(), fault]).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
        for words in ["sends a second", "not accepted", "p99"] {
            assert!(svg.contains(words), "{words}: {svg}");
        }
    }
}
