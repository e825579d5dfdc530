// What the nodes had to do lately, as lines over time; a table has the same numbers.
import { get } from "../api";
import { Chart, Faces, Field, bytes, number, param, useLoad } from "../parts";
import { go, href } from "../router";
import type { O } from "../types";

const SPANS: [string, string][] = [
  ["30", "the last half hour"],
  ["60", "the last hour"],
  ["360", "the last six hours"],
];

type Point = O["FiguresPoint"];

export function Figures() {
  const minutes = param("minutes") || "30";
  const shown = useLoad(
    (signal) => get<O["Figures"]>("/v1/admin/figures", { since: new Date(Date.now() - Number(minutes) * 60_000).toISOString() }, signal),
    [minutes],
    { every: 10_000 },
  );
  return (
    <section>
      <h2>Over time</h2>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <Field label="Of" name="minutes" value={minutes} onChange={(event) => go(href("home", { minutes: event.currentTarget.value }), true)}>
          {SPANS.map(([value, label]) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
        </Field>
      </form>
      <Faces of={shown} isEmpty={({ nodes }) => nodes.every((node) => node.points.length === 0)} empty={<p>The first figures come ten seconds after the start.</p>}>
        {(figures) => <Charts figures={figures} />}
      </Faces>
    </section>
  );
}

function Charts({ figures }: { figures: O["Figures"] }) {
  const { step_seconds: step, nodes } = figures;
  const times = [...new Set(nodes.flatMap((node) => node.points.map((point) => point.at)))].sort();
  const at = nodes.map((node) => new Map(node.points.map((point) => [point.at, point])));
  const over = (of: (point: Point) => number | null, fold: (values: number[]) => number) =>
    times.map((time) => {
      const values = at.flatMap((points) => points.get(time) ?? []).map(of).filter((value): value is number => value !== null);
      return values.length > 0 ? fold(values) : null;
    });
  const sum = (values: number[]) => values.reduce((all, value) => all + value, 0);
  const rate = (of: (point: Point) => number) => over((point) => of(point) / step, sum);
  const worst = (values: number[]) => Math.max(...values);
  const each = (of: (point: Point) => number | null) => nodes.map((node, n) => ({ name: `node ${node.node_id}`, values: times.map((time) => { const point = at[n]!.get(time); return point ? of(point) : null; }) }));
  const perSecond = (value: number) => `${value < 10 ? value.toFixed(1) : number(Math.round(value))}/s`;
  const millis = (value: number) => `${value < 10 ? value.toFixed(1) : number(Math.round(value))} ms`;
  return (
    <div class="charts">
      <Chart label="Messages" times={times} show={perSecond} lines={[{ name: "sent", values: rate((point) => point.sends) }, { name: "received", values: rate((point) => point.inbound) }, { name: "failed", values: rate((point) => point.sends_failed) }]} />
      <Chart label="Webhooks" times={times} show={perSecond} lines={[{ name: "attempts", values: rate((point) => point.attempts) }, { name: "without success", values: rate((point) => point.attempts_failed) }]} />
      <Chart label="A send takes" times={times} show={millis} lines={[{ name: "99 of 100", values: over((point) => point.send_p99_ms, worst) }, { name: "every second", values: over((point) => point.send_p50_ms, worst) }]} />
      <Chart label="Shards led" times={times} show={number} lines={each((point) => point.leads)} />
      <Chart label="Memory" times={times} show={bytes} lines={each((point) => point.rss_bytes)} />
      <Chart label="Sync of the log, 99 of 100" times={times} show={millis} lines={each((point) => point.fsync_p99_ms)} />
    </div>
  );
}
