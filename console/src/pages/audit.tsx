import { type Page, asCurl, door, get, withQuery } from "../api";
import { Badge, CopyButton, Field, Id, Listing, Theirs, Time, Title, csv, download, param, useGrowing } from "../parts";
import { go, href } from "../router";
import type { M, O } from "../types";

type Entry = M["AuditEntry"] & Partial<Pick<O["OwnedEntry"], "customer_id">>;

/** Whose log an entry stands in, where there are those of all. */
const OWNER: "customer_id"[] = door === "operators" ? ["customer_id"] : [];
const NAMES = ["action", "actor", "since", "until", ...OWNER];

/** What an entry adds, such as why a channel was disabled. */
const inWords = (details: Record<string, string>) => Object.entries(details).map(([name, value]) => `${name}: ${value}`).join(", ");

/** Of a member's own account, or of the whole cluster. */
export function Audit() {
  const path = door === "members" ? "/v1/account/audit-log" : "/v1/admin/audit-log";
  const query = Object.fromEntries(NAMES.map((name) => [name, param(name)]));
  const load = (cursor?: string, signal?: AbortSignal) => get<Page<Entry>>(path, { ...query, limit: 50, cursor }, signal);
  const list = useGrowing<Entry>((signal) => load(undefined, signal), (cursor) => load(cursor), [path, query]);
  const who = (row: Entry) => row.actor.email ?? row.actor.prefix ?? row.actor.id ?? "";
  return (
    <>
      <Title extra={door === "operators" && <CopyButton text={asCurl("GET", withQuery(path, query))}>As a command</CopyButton>}>Audit log</Title>
      <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
        {NAMES.map((name) => (
          <Field key={name} label={name} name={name} value={query[name] ?? ""} error={list.error} placeholder={name === "action" ? "key.issued" : name === "since" || name === "until" ? "2026-01-31T00:00:00Z" : ""}
            onChange={(event) => go(href("audit", { ...query, [name]: event.currentTarget.value }))} />
        ))}
        <button type="button" class="quiet" disabled={!list.data}
          onClick={() => {
            download("audit-log.csv", csv([["time", "action", "outcome", "actor", "who", "target", "label", "ip", "request_id", "details", ...OWNER], ...list.rows.map((row) => [row.created_at, row.action, row.outcome, row.actor.type, who(row), row.target?.type ?? null, row.target?.label ?? null, row.ip ?? null, row.request_id ?? null, inWords(row.details ?? {}), ...OWNER.map((name) => row[name] ?? null)])]));
          }}>
          Download as CSV
        </button>
      </form>
      <Listing
        of={list}
        name="Audit log, the newest first"
        empty={<p>No entries match.</p>}
        columns={[
          { head: "Time", cell: (row) => <Time at={row.created_at} /> },
          { head: "Action", cell: (row) => <><code>{row.action}</code>{row.details && <p class="fine"><Theirs text={inWords(row.details)} /></p>}</> },
          { head: "Outcome", cell: (row) => <Badge status={row.outcome} /> },
          { head: "Who", cell: (row) => <><span class="fine">{row.actor.type}</span> <Theirs text={who(row)} /></> },
          { head: "Target", cell: (row) => row.target && <><span class="fine">{row.target.type}</span> <Theirs text={row.target.label} /></> },
          { head: "IP address", cell: (row) => row.ip ?? "–" },
          ...OWNER.map((name) => ({ head: "Customer", cell: (row: Entry) => <Id id={row[name]} /> })),
          { head: "Request", cell: (row) => <Id id={row.request_id} /> },
        ]}
      />
    </>
  );
}
