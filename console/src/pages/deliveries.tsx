import { type Page, get, post } from "../api";
import { Badge, Faces, Failure, Field, Id, Listing, MoreFilters, Theirs, Time, Title, number, param, plain, say, useAction, useGrowing, useLoad } from "../parts";
import { go, href } from "../router";
import { may } from "../session";
import type { M } from "../types";
import { DELIVERY, EVENT, OUTCOME } from "../words";

type Row = M["WebhookDelivery"];
type Detail = M["WebhookDeliveryDetail"];

const NAMES = ["state", "event", "endpoint_id", "channel_id", "http_status", "since", "until", "event_id", "message_id"] as const;
/** Those that are not chosen of a few words. */
const WRITTEN = NAMES.slice(2);
const HINTS: Partial<Record<(typeof NAMES)[number], string>> = { http_status: "5xx", since: "2026-01-31T00:00:00Z", until: "2026-01-31T00:00:00Z" };

export function Deliveries() {
  const id = param("id");
  return id ? <One key={id} id={id} /> : <All />;
}

function All() {
  const query = Object.fromEntries(NAMES.map((name) => [name, param(name)])) as Record<(typeof NAMES)[number], string>;
  const load = (cursor?: string, signal?: AbortSignal) => get<Page<Row>>("/v1/webhook-deliveries", { ...query, limit: 50, cursor }, signal);
  const list = useGrowing<Row>((signal) => load(undefined, signal), (cursor) => load(cursor), [query], { every: 5_000 });
  const filter = (name: string, value: string) => go(href("deliveries", { ...query, [name]: value }));
  return (
    <>
      <Title>Deliveries</Title>
      <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
        <Field label="State" name="state" value={query.state} onChange={(event) => filter("state", event.currentTarget.value)}>
          <option value="">all</option>
          {Object.keys(DELIVERY).map((word) => (
            <option key={word} value={word}>
              {word}
            </option>
          ))}
        </Field>
        <Field label="Event" name="event" value={query.event} onChange={(event) => filter("event", event.currentTarget.value)}>
          <option value="">all</option>
          {Object.keys(EVENT).map((word) => (
            <option key={word} value={word}>
              {word}
            </option>
          ))}
        </Field>
        <MoreFilters isSet={WRITTEN.some((name) => query[name] !== "")}>
          {WRITTEN.map((name) => (
            <Field key={name} label={name} name={name} value={query[name]} error={list.error} placeholder={HINTS[name] ?? ""} onChange={(event) => filter(name, event.currentTarget.value)} />
          ))}
        </MoreFilters>
      </form>
      <Listing
        of={list}
        name="Deliveries, the newest first"
        empty={<p>No deliveries match. One is created for each event and each endpoint that subscribes to it.</p>}
        columns={[
          { head: "Created", cell: (row) => <Time at={row.created_at} /> },
          { head: "Event", cell: (row) => <a href={href("deliveries", { id: row.id })}>{row.event}</a> },
          { head: "State", cell: (row) => <Badge status={row.state} title={DELIVERY[row.state]} /> },
          { head: "Answer", cell: (row) => row.last_http_status ?? row.last_outcome ?? "–", end: true },
          { head: "Attempts", cell: (row) => `${row.attempt_count} of ${row.max_attempts}`, end: true },
          { head: "Next", cell: (row) => <Time at={row.next_attempt_at} /> },
          { head: "URL", cell: (row) => <span class="cut"><Theirs text={row.url} /></span> },
        ]}
      />
    </>
  );
}

function headers(of: unknown): string {
  return Object.entries((of ?? {}) as Record<string, unknown>)
    .map(([name, value]) => `${name}: ${Array.isArray(value) ? value.join(", ") : String(value)}`)
    .join("\n");
}

function One({ id }: { id: string }) {
  const path = `/v1/webhook-deliveries/${encodeURIComponent(id)}`;
  const shown = useLoad((signal) => get<Detail>(path, {}, signal), [id], { every: 3_000 });
  const { busy, error, run } = useAction();
  return (
    <>
      <p>
        <a href={href("deliveries")}>‹ Deliveries</a>
      </p>
      <Title extra={shown.data && <Badge status={shown.data.state} title={DELIVERY[shown.data.state]} />}>{shown.data?.event ?? "Delivery"}</Title>
      <Faces of={shown}>
        {(row) => (
          <>
            <p class="fine">
              event <Id id={row.event_id} /> · message <Id id={row.message_id} /> · to <a href={href("webhooks", { id: row.endpoint_id })}><Theirs text={row.url} /></a> · created <Time at={row.created_at} />
              {row.next_attempt_at && (
                <>
                  {" "}
                  · next attempt <Time at={row.next_attempt_at} />
                </>
              )}
            </p>
            {may("write") && (
              <button type="button" disabled={busy} onClick={() => void run(async () => { await post(`${path}/redeliver`); say("It will be delivered again now"); shown.reload(); })}>
                Redeliver
              </button>
            )}
            <Failure error={error} />
            <h2>Attempts</h2>
            {row.attempts.length === 0 && <p>None yet.</p>}
            <ol class="attempts">
              {row.attempts.map((attempt) => (
                <li key={`${attempt.number}-${attempt.started_at}`}>
                  <p>
                    <strong>{attempt.number}.</strong> <Time at={attempt.started_at} /> <Badge status={attempt.outcome} title={OUTCOME[attempt.outcome]} /> {attempt.http_status !== null && <>status {attempt.http_status} </>}
                    after {number(attempt.elapsed_ms)} ms <span class="fine">({attempt.trigger}{attempt.remote_ip && `, ${attempt.remote_ip}`})</span>
                  </p>
                  <p class="fine">{attempt.error ? plain(attempt.error) : OUTCOME[attempt.outcome]}</p>
                  {attempt.http_status !== null && (
                    <details>
                      <summary>The receiver's answer</summary>
                      <pre tabIndex={0}>{plain(headers(attempt.response_headers))}{"\n\n"}{plain(attempt.response_body ?? "")}</pre>
                    </details>
                  )}
                </li>
              ))}
            </ol>
            <h2>Request</h2>
            <pre tabIndex={0}>{plain(headers(row.request.headers))}</pre>
            <pre tabIndex={0}>{plain(JSON.stringify(row.request.body, null, 2))}</pre>
          </>
        )}
      </Faces>
    </>
  );
}
