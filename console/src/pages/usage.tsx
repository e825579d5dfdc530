import { useState } from "preact/hooks";
import { type Page, get, nodeTime } from "../api";
import { Bars, Faces, Field, Id, Pages, Table, Theirs, Tile, Title, announce, bytes, csv, download, number, param, useLoad } from "../parts";
import { go, href } from "../router";
import type { Channel, M } from "../types";

type Row = M["Usage"];

/** Bars of channels that are drawn; the table has all. */
const MOST_BARS = 50;
/** The newest channels are shown by their names, others by their ids. */
const NAMED = 100;
/** Rows of the table that are in the document at a time: a month of many channels has thousands. */
const MOST_ROWS = 200;

/** How the counts are grouped, and of how many days where the gateway is to look at fewer than it does by itself. */
const CHOICES: [string, string][] = [
  ["day", "day, 30 days"],
  ["hour", "hour, 7 days"],
  ["channel", "day and channel, 30 days"],
  ["channel-7", "day and channel, 7 days"],
  ["channel-1", "channel, today"],
];

const parts = (row: Row): [string, number][] => [["sent", row.sent], ["received", row.received], ["failed", row.failed]];

/** All days of a channel together, the channel with most messages first. */
export function byChannel(rows: Row[]): Row[] {
  const sums = new Map<string | null, Row>();
  for (const row of rows) {
    const sum = sums.get(row.channel_id);
    sums.set(row.channel_id, sum ? { ...sum, sent: sum.sent + row.sent, received: sum.received + row.received, failed: sum.failed + row.failed } : row);
  }
  const all = (row: Row) => row.sent + row.received + row.failed;
  return [...sums.values()].sort((a, b) => all(b) - all(a));
}

export function Usage() {
  const asked = param("by") || "day";
  const [group, days] = asked.split("-") as [string, string | undefined];
  const [turned, turn] = useState({ asked, page: 0 });
  const page = turned.asked === asked ? turned.page : 0;
  const shown = useLoad(
    async (signal) => {
      const [usage, limits, channels] = await Promise.all([
        get<Page<Row>>("/v1/account/usage", { group_by: group, from: days && new Date(nodeTime() - (Number(days) - 1) * 86_400_000).toISOString().slice(0, 10) }, signal),
        get<M["Limits"]>("/v1/limits", {}, signal),
        group === "channel" ? get<Page<Channel>>("/v1/channels", { limit: NAMED }, signal) : undefined,
      ]);
      const names = new Map(channels?.data.map((channel) => [channel.id, channel.name]));
      return { by: group, rows: usage.data, limits, names };
    },
    [asked],
  );
  const to = (page: number) => {
    turn({ asked, page });
    announce(`Page ${page + 1}`);
  };
  const at = (row: Row) => row.hour?.slice(0, 16).replace("T", " ") ?? row.date;
  const table = (rows: Row[]) => [
    ["time", "channel_id", "sent", "received", "failed", "media_bytes", "webhook_deliveries"],
    ...rows.map((row) => [at(row), row.channel_id, row.sent, row.received, row.failed, row.media_bytes, row.webhook_deliveries]),
  ];
  return (
    <>
      <Title>Usage</Title>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <Field label="By" name="by" value={asked} onChange={(event) => go(href("usage", { by: event.currentTarget.value }))}>
          {CHOICES.map(([choice, label]) => (
            <option key={choice} value={choice}>
              {label}
            </option>
          ))}
        </Field>
        <button type="button" class="quiet" disabled={!shown.data} onClick={() => shown.data && download(`usage-by-${shown.data.by}.csv`, csv(table(shown.data.rows)))}>
          Download as CSV
        </button>
      </form>
      <Faces of={shown}>
        {({ by, rows, limits, names }) => (
          <>
            <div class="tiles">
              <Tile label="API requests left" value={number(limits.per_customer.remaining)} about={`of ${number(limits.per_customer.limit)}; the console uses none`} />
              <Tile label="Sent" value={number(rows.reduce((sum, row) => sum + row.sent, 0))} />
              <Tile label="Received" value={number(rows.reduce((sum, row) => sum + row.received, 0))} />
              <Tile label="Failed" value={number(rows.reduce((sum, row) => sum + row.failed, 0))} />
            </div>
            {rows.length > 0 && by !== "channel" && <Bars label={`Messages by ${by}; the table below has the same numbers`} rows={rows.map((row) => ({ at: at(row), values: parts(row) }))} />}
            {rows.length > 0 && by === "channel" && <Bars label="Messages by channel, those with most first; the table below has them by day" rows={byChannel(rows).slice(0, MOST_BARS).map((row) => ({ at: names.get(row.channel_id!) ?? row.channel_id!, values: parts(row) }))} />}
            <Table
              name={`Usage by ${by}, times in UTC`}
              rows={rows.toReversed().slice(page * MOST_ROWS, (page + 1) * MOST_ROWS)}
              id={(row) => at(row) + row.channel_id}
              columns={[
                { head: by === "hour" ? "Hour" : "Day", cell: at },
                ...(by === "channel" ? [{ head: "Channel", cell: (row: Row) => (names.has(row.channel_id!) ? <a href={href("channel", { id: row.channel_id })}><Theirs text={names.get(row.channel_id!)} /></a> : <Id id={row.channel_id} />) }] : []),
                { head: "Sent", cell: (row) => number(row.sent), end: true },
                { head: "Received", cell: (row) => number(row.received), end: true },
                { head: "Failed", cell: (row) => number(row.failed), end: true },
                { head: "Media", cell: (row) => bytes(row.media_bytes), end: true },
                { head: "Deliveries", cell: (row) => number(row.webhook_deliveries), end: true },
              ]}
            />
            <Pages of={{ page: page + 1, back: page > 0 ? () => to(page - 1) : undefined, forth: (page + 1) * MOST_ROWS < rows.length ? () => to(page + 1) : undefined }} />
          </>
        )}
      </Faces>
    </>
  );
}
