// What the nodes had to do lately, as lines over time; a table has the same numbers.
import { useState } from "preact/hooks";
import { get, nodeTime } from "../api";
import { Faces, Field, Table, bytes, number, param, useLoad } from "../parts";
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
    (signal) => get<O["Figures"]>("/v1/admin/figures", { since: new Date(nodeTime() - Number(minutes) * 60_000).toISOString() }, signal),
    [minutes],
    { every: 20_000 },
  );
  return (
    <section>
      <h2>Over time</h2>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <Field label="Period" name="minutes" value={minutes} onChange={(event) => go(href("home", { minutes: event.currentTarget.value }), true)}>
          {SPANS.map(([value, label]) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
        </Field>
      </form>
      <Faces of={shown} isEmpty={({ nodes }) => nodes.every((node) => node.points.length === 0 && node.silence === null)} empty={<p>The first figures appear ten seconds after a node has started.</p>}>
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
  const silent = nodes.filter((node) => node.silence !== null).map((node) => node.node_id);
  return (
    <>
      {silent.length > 0 && <p class="stale">{`${silent.length === 1 ? "Node" : "Nodes"} ${silent.join(", ")} did not answer, so what happened there is missing from these figures.`}</p>}
      <div class="charts">
        <Chart label="Messages" times={times} show={perSecond} lines={[{ name: "sent", values: rate((point) => point.sends) }, { name: "received", values: rate((point) => point.inbound) }, { name: "failed", values: rate((point) => point.sends_failed) }]} />
        <Chart label="Webhooks" times={times} show={perSecond} lines={[{ name: "attempts", values: rate((point) => point.attempts) }, { name: "failed", values: rate((point) => point.attempts_failed) }]} />
        <Chart label="Send latency" times={times} show={millis} lines={[{ name: "p99", values: over((point) => point.send_p99_ms, worst) }, { name: "p50", values: over((point) => point.send_p50_ms, worst) }]} />
        <Chart label="Shards led" times={times} show={number} lines={each((point) => point.leads)} />
        <Chart label="Memory" times={times} show={bytes} lines={each((point) => point.rss_bytes)} />
        <Chart label="Log sync (fsync), p99" times={times} show={millis} lines={each((point) => point.fsync_p99_ms)} />
      </div>
    </>
  );
}

interface Line {
  name: string;
  /** One for each time; `null` where nothing is known. */
  values: (number | null)[];
}

/** The style sheet has five kinds of lines: with more nodes they come again, in the order of the key below the drawing. */
const lineClass = (index: number) => `line-${index % 5}`;

/** Lines over time, as a drawing; a table below has the same numbers, once it is opened. */
function Chart({ label, times, lines, show }: { label: string; times: string[]; lines: Line[]; show: (value: number) => string }) {
  const [opened, open] = useState(false);
  const most = Math.max(0, ...lines.flatMap((line) => line.values.map((value) => value ?? 0)));
  const x = (index: number) => (times.length > 1 ? (index / (times.length - 1)) * 300 : 150);
  const y = (value: number) => 58 - (most > 0 ? value / most : 0) * 54;
  // A line begins anew behind each gap.
  const path = (values: (number | null)[]) => {
    let draws = false;
    return values
      .map((value, index) => {
        const command = value === null ? "" : `${draws ? "L" : "M"}${x(index).toFixed(1)} ${y(value).toFixed(1)}h.01`;
        draws = value !== null;
        return command;
      })
      .join("");
  };
  const last = (values: (number | null)[]) => {
    const value = values.findLast((value) => value !== null);
    return value === undefined || value === null ? "–" : show(value);
  };
  return (
    <figure class="chart">
      <figcaption>
        <strong>{label}</strong> <span class="fine">up to {show(most)}</span>
      </figcaption>
      <svg viewBox="0 0 300 60" preserveAspectRatio="none" role="img" aria-label={`${label} over time; the table below has the same numbers`}>
        {lines.map((line, index) => (
          <path key={line.name} class={lineClass(index)} d={path(line.values)} vector-effect="non-scaling-stroke" />
        ))}
      </svg>
      <ul>
        {lines.map((line, index) => (
          <li key={line.name}>
            <span class={`key ${lineClass(index)}`} aria-hidden="true" /> {line.name}: {last(line.values)}
          </li>
        ))}
      </ul>
      <details onToggle={(event) => open(event.currentTarget.open)}>
        <summary class="fine">As a table</summary>
        {opened && (
          <Table
            name={`${label}, times in UTC`}
            rows={times.map((time, index) => ({ time, index })).reverse()}
            id={(row) => row.time}
            columns={[
              { head: "Time", cell: (row) => row.time.slice(11, 19) },
              ...lines.map((line) => ({
                head: line.name,
                cell: (row: { index: number }) => {
                  const value = line.values[row.index];
                  return value === null || value === undefined ? "–" : show(value);
                },
                end: true,
              })),
            ]}
          />
        )}
      </details>
    </figure>
  );
}
