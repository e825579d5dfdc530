import { useState } from "preact/hooks";
import { asCurl, get, type Page } from "../api";
import { Badge, CopyButton, Dialog, Field, Id, Listing, MoreFilters, Theirs, Time, param, plain, useGrowing } from "../parts";
import { go, href } from "../router";
import type { Channel, M, Message } from "../types";
import { DELIVERY } from "../words";
import { Media, Tick } from "./chats";

const FILTERS = ["direction", "type", "status", "has_media", "order", "chat_id", "from", "to", "participant", "message_id", "client_ref", "since", "until"] as const;
/** Those that are chosen of a few words. */
const CHOSEN = ["direction", "status", "has_media", "order"];
const WRITTEN = FILTERS.filter((name) => !CHOSEN.includes(name));

export function Messages({ channel }: { channel: Channel }) {
  const query = Object.fromEntries(FILTERS.map((name) => [name, param(name)])) as Record<(typeof FILTERS)[number], string>;
  const path = `/v1/channels/${channel.id}/messages`;
  const [open, setOpen] = useState<Message>();
  const load = (cursor?: string, signal?: AbortSignal) => get<Page<Message>>(path, { ...query, limit: 50, cursor }, signal);
  const list = useGrowing<Message>((signal) => load(undefined, signal), (cursor) => load(cursor), [channel.id, query]);
  const filter = (name: string, value: string) => go(href("channel", { id: channel.id, tab: "messages", ...query, [name]: value }));
  const search = new URLSearchParams(Object.entries(query).filter(([, value]) => value)).toString();
  return (
    <>
      <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
        <Field label="Direction" name="direction" value={query.direction} onChange={(event) => filter("direction", event.currentTarget.value)}>
          <option value="">both</option>
          <option value="inbound">inbound</option>
          <option value="outbound">outbound</option>
        </Field>
        <Field label="Status" name="status" value={query.status} onChange={(event) => filter("status", event.currentTarget.value)}>
          <option value="">all</option>
          {["queued", "sent", "delivered", "read", "played", "failed", "received"].map((word) => (
            <option key={word} value={word}>
              {word}
            </option>
          ))}
        </Field>
        <Field label="Media" name="has_media" value={query.has_media} onChange={(event) => filter("has_media", event.currentTarget.value)}>
          <option value="">with or without</option>
          <option value="true">with</option>
          <option value="false">without</option>
        </Field>
        <Field label="Order" name="order" value={query.order} onChange={(event) => filter("order", event.currentTarget.value)}>
          <option value="">the newest first</option>
          <option value="asc">the oldest first</option>
        </Field>
        <CopyButton text={asCurl("GET", `${path}${search ? `?${search}` : ""}`)}>Copy as curl</CopyButton>
        <button type="button" class="quiet" onClick={list.reload}>
          Reload
        </button>
        <MoreFilters isSet={WRITTEN.some((name) => query[name] !== "")}>
          {WRITTEN.map((name) => (
            <Field key={name} label={name} name={name} value={query[name]} error={list.error} placeholder={name === "since" || name === "until" ? "2026-01-31T00:00:00Z" : ""}
              onChange={(event) => filter(name, event.currentTarget.value)} />
          ))}
        </MoreFilters>
      </form>
      <Listing
        of={list}
        name={query.order === "asc" ? "Messages, the oldest first" : "Messages, the newest first"}
        empty={<p>No messages match.</p>}
        columns={[
          { head: "Time", cell: (row) => <Time at={row.occurred_at} /> },
          { head: "Direction", cell: (row) => <>{row.direction === "outbound" ? "→ out" : "← in"}</> },
          { head: "With", cell: (row) => <Theirs text={row.chat_id.replace(/@.*/, "")} /> },
          { head: "Type", cell: (row) => row.type },
          { head: "Text", cell: (row) => <span class="cut"><Theirs text={row.text} /></span> },
          { head: "Status", cell: (row) => (row.direction === "outbound" ? <Tick row={row} /> : row.status) },
          {
            head: "Deliveries",
            cell: (row) => (
              <button type="button" class="quiet" onClick={() => setOpen(row)}>
                {row.webhook_deliveries.length} <span class="hidden">deliveries of message {row.message_id}</span>
              </button>
            ),
          },
          { head: "Id", cell: (row) => <Id id={row.message_id} /> },
        ]}
      />
      {open && (
        <Dialog title="Message" close={() => setOpen(undefined)}>
          <p class="fine">
            <Id id={open.message_id} /> · request <Id id={open.request_id} />
          </p>
          {open.media && <Media media={open.media} type={open.type} />}
          <Deliveries of={open.webhook_deliveries} />
          <pre tabIndex={0}>{plain(JSON.stringify(open, null, 2))}</pre>
        </Dialog>
      )}
    </>
  );
}

function Deliveries({ of }: { of: M["MessageDelivery"][] }) {
  if (of.length === 0) return <p>It was not delivered to any webhook.</p>;
  return (
    <ul>
      {of.map((row) => (
        <li key={row.id}>
          <a href={href("deliveries", { id: row.id })}>{row.event}</a> <Badge status={row.state} title={DELIVERY[row.state]} />{" "}
          {row.last_http_status} after {row.attempt_count === 1 ? "1 attempt" : `${row.attempt_count} attempts`}
        </li>
      ))}
    </ul>
  );
}
