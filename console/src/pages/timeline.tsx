// What happened to the cluster: a line for each node with marks, and the same as a list.
import { useState } from "preact/hooks";
import { type Page, asCurl, get, nodeTime, withQuery } from "../api";
import { CopyButton, Faces, Field, More, Table, Theirs, Time, Title, Word, isNothing, param, useGrowing } from "../parts";
import { go, href } from "../router";
import type { O } from "../types";
import { KIND } from "../words";

type Entry = O["TimelineEntry"];

const HOURS: [string, string][] = [
  ["1", "the last hour"],
  ["6", "the last six hours"],
  ["24", "the last day"],
  ["168", "the last week"],
  ["2160", "the last 90 days"],
];

/** Entries that are drawn; the list below goes on. */
const DRAWN = 500;

export function Timeline() {
  const hours = param("hours") || "24";
  const kind = param("kind");
  const part = (since: string, cursor?: string | null, signal?: AbortSignal) => get<Page<Entry>>("/v1/admin/timeline", { since, kind, limit: 100, cursor }, signal);
  const shown = useGrowing(
    async (signal) => {
      const until = nodeTime();
      const since = new Date(until - Number(hours) * 3_600_000).toISOString();
      const [nodes, first] = await Promise.all([get<Page<O["Node"]>>("/v1/admin/nodes", {}, signal), part(since, undefined, signal)]);
      const data = [...first.data];
      let next_cursor = first.next_cursor ?? null;
      while (next_cursor && data.length < DRAWN) {
        const page = await part(since, next_cursor, signal);
        data.push(...page.data);
        next_cursor = page.next_cursor ?? null;
      }
      return { nodes: nodes.data, data, next_cursor, since, until };
    },
    (cursor, { since }) => part(since, cursor),
    [hours, kind],
    // Up to six calls.
    { every: 15_000 },
  );
  const choose = (name: string, value: string) => go(href("timeline", { hours, kind, [name]: value }));
  return (
    <>
      <Title extra={<CopyButton text={asCurl("GET", withQuery("/v1/admin/timeline", { kind }))}>As a command</CopyButton>}>Timeline</Title>
      <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
        <Field label="Period" name="hours" value={hours} onChange={(event) => choose("hours", event.currentTarget.value)}>
          {HOURS.map(([value, label]) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
        </Field>
        <Field label="Kind" name="kind" value={kind} onChange={(event) => choose("kind", event.currentTarget.value)}>
          <option value="">everything</option>
          {Object.entries(KIND).map(([word, about]) => (
            <option key={word} value={word}>
              {about}
            </option>
          ))}
        </Field>
      </form>
      <Faces of={shown}>
        {({ nodes, data, next_cursor, since, until }) => (
          <>
            {(kind === "" || kind === "node") && <Lines nodes={nodes} entries={data} from={Date.parse(since)} to={until} />}
            {isNothing({ data, next_cursor }) ? (
              <div class="empty">
                <p>Nothing happened in this period. Nodes that come and go, take-overs, layout changes, checks and backups appear here.</p>
              </div>
            ) : (
              <Table
                name="What happened, the newest first"
                rows={shown.rows}
                id={(row) => row.id}
                columns={[
                  { head: "When", cell: (row) => <Time at={row.at} /> },
                  { head: "Kind", cell: (row) => <Word class={`kind is-${row.kind}`} about={KIND[row.kind] ?? ""}>{row.kind}</Word> },
                  { head: "What happened", cell: (row) => <Theirs text={row.summary} /> },
                  { head: "By", cell: (row) => <By entry={row} /> },
                ]}
              />
            )}
            <More of={shown.more} />
          </>
        )}
      </Faces>
    </>
  );
}

type Standing = "up" | "draining" | "down";

/** How a node stands after an entry about it, and how it must have stood before. */
const AFTER: Record<string, [Standing, Standing]> = {
  "node.started": ["up", "down"],
  "node.back": ["up", "down"],
  "node.lost": ["down", "up"],
  "node.drained": ["draining", "up"],
  "node.undrained": ["up", "draining"],
};

export function standings(node: O["Node"], entries: Entry[], from: number, to: number): { begin: number; end: number; as: Standing }[] {
  const own = entries.filter((entry) => entry.node_id === node.id && entry.action in AFTER).reverse();
  const now: Standing = node.state === "down" ? "down" : node.state === "draining" ? "draining" : "up";
  // Before it first joined there was no such node.
  let [at, as] = [Math.max(from, Date.parse(node.registered_at)), own[0] ? AFTER[own[0].action]![1] : now];
  const parts = [];
  for (const entry of own) {
    const then = Math.max(at, Date.parse(entry.at));
    parts.push({ begin: at, end: then, as });
    [at, as] = [then, AFTER[entry.action]![0]];
  }
  return [...parts, { begin: at, end: to, as }].filter((part) => part.end > part.begin);
}

/** Who did it, or saw it. */
function By({ entry }: { entry: Entry }) {
  return entry.actor.type === "system" ? <>seen by node {entry.actor.id}</> : <Theirs text={entry.actor.id ?? entry.actor.type} />;
}

const HIGH: Record<Standing, number> = { up: 10, draining: 6, down: 2 };

function Lines({ nodes, entries, from, to }: { nodes: O["Node"][]; entries: Entry[]; from: number; to: number }) {
  const [picked, pick] = useState<string>();
  const x = (at: number) => ((at - from) / (to - from)) * 1_000;
  const marks = entries.filter((entry) => !["node", "check"].includes(entry.kind));
  const oldestFirst = marks.toReversed();
  const index = oldestFirst.findIndex((entry) => entry.id === picked);
  const shown = oldestFirst[index];
  // Without one that is picked, the way begins at the newest.
  const next = (by: -1 | 1) => (shown ? oldestFirst[index + by] : by < 0 ? oldestFirst.at(-1) : undefined);
  const mark = (entry: Entry, y: number, kind = "") => (
    <g key={entry.id} cursor="pointer" onClick={() => pick(entry.id)}>
      <rect fill="none" pointer-events="all" x={x(Date.parse(entry.at)) - 8} width={16} y={0} height={20} />
      <rect class={`mark ${kind}`} x={x(Date.parse(entry.at)) - (entry === shown ? 4.5 : 1.5)} width={entry === shown ? 9 : 3} y={y} height={20 - 2 * y} />
      <title>{`${entry.summary} (${hour(Date.parse(entry.at))} UTC)`}</title>
    </g>
  );
  const hour = (at: number) => new Date(at).toISOString().slice(5, 16).replace("T", " ");
  return (
    <figure class="lines" aria-label="Nodes over time; the table below says the same">
      {nodes.map((node) => {
        const own = entries.filter((entry) => entry.node_id === node.id && entry.kind === "lead");
        return (
          <div key={node.id}>
            <span>Node {node.id}</span>
            <svg viewBox="0 0 1000 20" preserveAspectRatio="none" aria-hidden="true">
              {standings(node, entries, from, to).map((part) => (
                <rect key={part.begin} class={`stands is-${part.as}`} x={x(part.begin)} width={Math.max(1, x(part.end) - x(part.begin))} y={10 - HIGH[part.as] / 2} height={HIGH[part.as]}>
                  <title>{`${part.as} from ${hour(part.begin)} to ${hour(part.end)} UTC`}</title>
                </rect>
              ))}
              {own.map((entry) => mark(entry, 0))}
            </svg>
          </div>
        );
      })}
      <div>
        <span>Cluster</span>
        <svg viewBox="0 0 1000 20" preserveAspectRatio="none" aria-hidden="true">
          <rect class="stands" x={0} width={1000} y={9.5} height={1} />
          {marks.map((entry) => mark(entry, 2, `is-${entry.kind}`))}
        </svg>
      </div>
      <figcaption class="fine">
        From {hour(from)} to {hour(to)} UTC. Thick: up; half: drained; thin and red: down. Marks: take-overs at the node that lost its shards, and changes of the cluster.
      </figcaption>
      {marks.length > 0 && (
        <p>
          <button type="button" class="quiet" disabled={!next(-1)} onClick={() => pick(next(-1)?.id)}>
            Previous mark
          </button>{" "}
          <button type="button" class="quiet" disabled={!next(1)} onClick={() => pick(next(1)?.id)}>
            Next mark
          </button>{" "}
          <span role="status">
            {shown && (
              <>
                {new Date(shown.at).toISOString()}: <Theirs text={shown.summary} />, <By entry={shown} />
              </>
            )}
          </span>
        </p>
      )}
    </figure>
  );
}
