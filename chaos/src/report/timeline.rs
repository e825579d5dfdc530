//! Draws throughput and latency over a run, with the faults as bands behind them.

use std::collections::BTreeMap;

use anyhow::anyhow;
use hdrhistogram::Histogram;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

use crate::history::{At, Call, Collected, Op};
use crate::schedule::done::Done;
use crate::schedule::fault::Lane;

/// Sizes in pixels. Long runs are wider, so that their faults can be told apart.
const WIDTH: u32 = 1_200;
const WIDEST: u32 = 7_200;
const A_SECOND: f64 = 2.0;
const CHART: u32 = 320;
const LANE: u32 = 26;

/// Width of an axis's numbers.
const AXIS: u32 = 64;
const MARGIN: u32 = 10;

/// Every lane with its name and colour, from top to bottom.
const LANES: [(Lane, &str, RGBColor); 4] = [
    (Lane::Tenants, "tenants", CYAN),
    (Lane::Operator, "operator", RGBColor(214, 160, 0)),
    (Lane::Network, "network", BLUE),
    (Lane::Nodes, "nodes", RED),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws the SVG: sends at the top, faults with their numbers in the middle, latencies at the bottom.
///
/// # Errors
/// When it cannot be drawn.
pub fn draw(run: &Collected, faults: &[Done]) -> anyhow::Result<String> {
    let end = run.calls().map(|call| call.end).chain(faults.iter().map(|fault| fault.to)).max().unwrap_or_default();
    let width = ((seconds(end) * A_SECOND) as u32).clamp(WIDTH, WIDEST);
    let rows = LANE * LANES.len() as u32;
    let mut svg = String::new();
    {
        let whole = SVGBackend::with_string(&mut svg, (width, 2 * CHART + rows)).into_drawing_area();
        whole.fill(&WHITE).map_err(drawing)?;
        let (upper, rest) = whole.split_vertically(CHART);
        let (middle, lower) = rest.split_vertically(rows);
        let buckets = buckets(run);
        let line = |of: &dyn Fn(&Bucket) -> Option<f64>| -> Vec<(f64, f64)> {
            buckets.iter().filter_map(|(at, bucket)| Some((*at as f64, of(bucket)?))).collect()
        };
        let accepted = line(&|bucket| Some(bucket.accepted as f64));
        let failed = line(&|bucket| Some(bucket.failed as f64));
        let lines = [("accepted", accepted, GREEN), ("not accepted", failed, RED)];
        let most = highest(&lines) * 1.1;
        chart(&upper, "sends a second", end, (0.0..most, 0.0, most), faults, &lines)?;
        lanes(&middle, end, faults)?;
        // Zero cannot be shown on the logarithmic scale, which shows both quick sends and stalls of seconds.
        let quantile =
            |q: f64| line(&|bucket| bucket.latencies.as_ref().map(|all| all.value_at_quantile(q).max(1) as f64));
        let lines = [("p50", quantile(0.5), BLUE), ("p99", quantile(0.99), MAGENTA)];
        let most = highest(&lines).max(10.0) * 1.5;
        chart(&lower, "latency of accepted sends, ms", end, ((1.0..most).log_scale(), 1.0, most), faults, &lines)?;
        whole.present().map_err(drawing)?;
    }
    Ok(svg)
}

/// The sends of one second.
#[derive(Default)]
struct Bucket {
    accepted: u64,
    failed: u64,
    /// In milliseconds; `None` if nothing was accepted.
    latencies: Option<Histogram<u64>>,
}

/// The sends by the second in which they were answered.
fn buckets(run: &Collected) -> BTreeMap<u64, Bucket> {
    let sends: Vec<&Call> = run.calls().filter(|call| matches!(call.op, Op::Send { .. })).collect();
    let second = |call: &Call| call.end.since(At::default()).as_secs();
    let end = sends.iter().map(|call| second(call)).max().map_or(0, |last| last + 1);
    // Seconds without sends are the interesting ones, so they have buckets, too.
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

fn highest(lines: &[Line<'_>]) -> f64 {
    lines.iter().flat_map(|(_, points, _)| points.iter().map(|(_, value)| *value)).fold(1.0, f64::max)
}

/// Draws lines over time in front of the faults. A scale comes with its lowest and its highest value.
fn chart<Y>(
    area: &Area<'_>,
    caption: &str,
    end: At,
    (scale, lowest, highest): (Y, f64, f64),
    faults: &[Done],
    lines: &[Line<'_>],
) -> anyhow::Result<()>
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let mut chart = ChartBuilder::on(area)
        .caption(caption, ("sans-serif", 16))
        .margin(MARGIN)
        .x_label_area_size(24)
        .y_label_area_size(AXIS)
        .build_cartesian_2d(0.0..length(end), scale)
        .map_err(drawing)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_labels(20)
        .x_label_formatter(&|at| format!("{at:.0} s"))
        .y_label_formatter(&|value| format!("{value:.0}"))
        .draw()
        .map_err(drawing)?;
    let bands = faults.iter().map(|fault| {
        let corners = [(seconds(fault.from), lowest), (seconds(fault.to), highest)];
        Rectangle::new(corners, row(fault.lane).1.mix(0.1).filled())
    });
    chart.draw_series(bands).map_err(drawing)?;
    for (name, points, color) in lines {
        let color = *color;
        chart
            .draw_series(LineSeries::new(points.iter().copied(), color.stroke_width(2)))
            .map_err(drawing)?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE)
        .border_style(BLACK)
        .draw()
        .map_err(drawing)
}

/// Draws a row per lane with its faults, by their numbers in the report.
fn lanes(area: &Area<'_>, end: At, faults: &[Done]) -> anyhow::Result<()> {
    let words = ("sans-serif", 12).into_font();
    for (row, (_, name, color)) in LANES.iter().enumerate() {
        let at = (MARGIN as i32, row as i32 * LANE as i32 + LANE as i32 / 3);
        area.draw(&Text::new(*name, at, words.color(color))).map_err(drawing)?;
    }
    let mut chart = ChartBuilder::on(area)
        .margin_right(MARGIN)
        .margin_left(MARGIN + AXIS)
        .build_cartesian_2d(0.0..length(end), LANES.len() as f64..0.0)
        .map_err(drawing)?;
    let bands = faults.iter().map(|fault| {
        let (row, color) = row(fault.lane);
        let corners = [(seconds(fault.from), row + 0.1), (seconds(fault.to), row + 0.9)];
        Rectangle::new(corners, color.mix(0.35).filled())
    });
    chart.draw_series(bands).map_err(drawing)?;
    let numbers = faults.iter().enumerate().map(|(n, fault)| {
        Text::new((n + 1).to_string(), (seconds(fault.from), row(fault.lane).0 + 0.25), words.clone())
    });
    chart.draw_series(numbers).map_err(drawing).map(drop)
}

/// Position of a lane's row from the top, and its colour.
fn row(lane: Lane) -> (f64, RGBColor) {
    let found = LANES.iter().position(|(other, ..)| *other == lane).unwrap_or_default();
    (found as f64, LANES[found].2)
}

/// Length of the time axis in seconds.
fn length(end: At) -> f64 {
    seconds(end).max(1.0)
}

fn seconds(at: At) -> f64 {
    at.since(At::default()).as_secs_f64()
}

/// Errors of drawing are reduced to their text.
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
            faults: Vec::new(),
            evidence: Evidence::default(),
        };
        let counted: Vec<(u64, u64)> = buckets(&run).values().map(|bucket| (bucket.accepted, bucket.failed)).collect();
        assert_eq!(counted, [(2, 0), (0, 0), (0, 0), (0, 1)]);
        let (fault, lane) = (Fault::Kill(Who::All), Lane::Nodes);
        let fault = Done { fault, lane, from: At::seconds(1), to: At::seconds(2), problem: None, note: None };
        let svg = draw(&run, &[fault.clone(), fault]).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
        for words in ["sends a second", "not accepted", "p99", "operator"] {
            assert!(svg.contains(words), "{words}: {svg}");
        }
    }
}
