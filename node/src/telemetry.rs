//! Telemetry of a node: logs on stderr, metrics as text, panics as log lines.

use std::panic::PanicHookInfo;
use std::time::Duration;

use anyhow::Context;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use model::time::Timestamp;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use crate::config::{Log, LogFormat};
use crate::console::shows_colours;

/// Upper bounds of every histogram of seconds: from a batched fsync to a send that timed out.
const SECONDS: [f64; 14] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// How often recorded samples are folded into their histograms, so that memory stays bounded when nobody scrapes.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// Starts logging. Every line includes the span fields, among them the request id.
///
/// # Errors
/// `log.filter` is invalid, or the process has a logger already.
pub fn init_logs(log: &Log) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&log.filter).context("log.filter")?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match log.format {
        LogFormat::Text => builder.with_ansi(shows_colours(&std::io::stderr())).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("starting the log: {error}"))?;
    std::panic::set_hook(Box::new(log_panic));
    Ok(())
}

/// Logs panics in the log's own format, where operators look, instead of bare text beside JSON lines.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let message = panic.payload_as_str().unwrap_or("not a text");
    let location = panic.location().map(ToString::to_string).unwrap_or_default();
    let thread = std::thread::current().name().unwrap_or("unnamed").to_owned();
    let backtrace = std::backtrace::Backtrace::force_capture();
    tracing::error!(%location, %thread, %backtrace, "panic: {message}");
}

/// Installs the metrics recorder and returns its handle.
///
/// # Errors
/// The process has a recorder already.
pub fn init_metrics() -> anyhow::Result<PrometheusHandle> {
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)
        .and_then(PrometheusBuilder::install_recorder)
        .context("starting the metrics")?;
    metrics::describe_gauge!("gateway_build_info", "Always 1; the label says which release this is.");
    metrics::gauge!("gateway_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    metrics::describe_gauge!(
        "gateway_clock_seconds",
        metrics::Unit::Seconds,
        "What this node's clock says while it answers: Unix time."
    );
    Ok(handle)
}

/// The metrics as Prometheus text. The clock is read at the scrape: compared with the time of the scrape, it shows the
/// offset of the node's clock.
pub fn text(metrics: &PrometheusHandle) -> String {
    metrics::gauge!("gateway_clock_seconds").set(Timestamp::now().0 as f64 / 1000.0);
    metrics.render()
}

/// Runs the recorder's upkeep until `stop` is cancelled.
pub async fn keep_metrics(metrics: PrometheusHandle, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(UPKEEP_EVERY);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        metrics.run_upkeep();
    }
}
