import { useState } from "preact/hooks";
import { type Page, asCurl, call, get, nodeTime, patch, post, remove } from "../api";
import { Badge, Confirm, CopyButton, Dialog, Faces, Failure, Field, FormEnd, Id, Table, Theirs, Tile, Time, Title, millis, number, param, say, useAction, useLoad, useShown } from "../parts";
import { go, href, leave } from "../router";
import { may } from "../session";
import type { M } from "../types";
import { EVENT, OFF } from "../words";

type Endpoint = M["WebhookEndpoint"];

/** What an endpoint hears of. */
const CHATS: Record<Endpoint["chat_type_filter"], string> = { all: "all chats", direct_only: "direct chats only", groups_only: "groups only" };

export function Webhooks() {
  const id = param("id");
  return id ? <One key={id} id={id} /> : <All />;
}

function health(row: Endpoint) {
  if (row.disabled_reason) return <Badge status="off" title={`Switched off: ${OFF[row.disabled_reason] ?? row.disabled_reason}`} />;
  if (!row.enabled) return <Badge status="off" title="Switched off by hand" />;
  if (row.failing_since) return <Badge status="failing" title={`Failing since ${row.failing_since}`} />;
  return <Badge status="ok" title="No problems known" />;
}

function All() {
  const list = useLoad((signal) => get<Page<Endpoint>>("/v1/webhook-endpoints", {}, signal), [], { every: 30_000 });
  return (
    <>
      <Title
        extra={
          may("write") && (
            <a class="button" href={href("webhooks", { create: "1" })}>
              Add an endpoint
            </a>
          )
        }
      >
        Webhooks
      </Title>
      <Faces
        of={list}
        isEmpty={({ data }) => data.length === 0}
        empty={<p>An endpoint is a URL of yours that receives signed events as they happen.</p>}
      >
        {({ data }) => (
          <Table
            name="Webhook endpoints"
            rows={data}
            id={(row) => row.id}
            columns={[
              { head: "URL", cell: (row) => <a href={href("webhooks", { id: row.id })}><Theirs text={row.url} /></a> },
              { head: "Events", cell: (row) => (row.events.includes("*" as never) ? "all" : row.events.join(", ")) },
              { head: "Channel", cell: (row) => (row.channel_id ? <Id id={row.channel_id} /> : "all") },
              { head: "Health", cell: health },
              { head: "Last success", cell: (row) => <Time at={row.last_success_at} /> },
            ]}
          />
        )}
      </Faces>
      {may("write") && param("create") && <Edit close={() => leave(href("webhooks"))} done={(endpoint) => go(href("webhooks", { id: endpoint.id }), true)} />}
    </>
  );
}

function One({ id }: { id: string }) {
  const path = `/v1/webhook-endpoints/${encodeURIComponent(id)}`;
  const shown = useLoad(
    async (signal) => {
      const [endpoint, stats] = await Promise.all([get<Endpoint>(path, {}, signal), get<M["EndpointStats"]>(`${path}/stats`, {}, signal)]);
      return { endpoint, stats };
    },
    [id],
    { every: 10_000 },
  );
  const [asked, setAsked] = useState("");
  const { busy, error, run } = useAction();
  return (
    <>
      <p>
        <a href={href("webhooks")}>‹ Webhooks</a>
      </p>
      <Title extra={shown.data && health(shown.data.endpoint)}>{shown.data ? <Theirs text={shown.data.endpoint.url} /> : "Webhook endpoint"}</Title>
      <Faces of={shown}>
        {({ endpoint, stats }) => (
          <>
            <p class="fine">
              <Id id={endpoint.id} /> · {endpoint.channel_id ? "one channel" : "all channels"} · {CHATS[endpoint.chat_type_filter]}
              {endpoint.failing_since && (
                <>
                  {" "}
                  · failing since <Time at={endpoint.failing_since} />
                </>
              )}
              {endpoint.disabled_reason && <> · switched off: {OFF[endpoint.disabled_reason] ?? endpoint.disabled_reason}</>}
            </p>
            <div class="tiles">
              <Tile label="Success" value={stats.success_rate === null ? "–" : `${Math.round(stats.success_rate * 100)} %`} />
              <Tile label="Delivered" value={number(stats.delivered)} />
              <Tile label="Waiting" value={number(stats.pending + stats.retrying + stats.paused)} about={`${number(stats.retrying)} retrying`} warn={stats.retrying > 0} />
              <Tile label="Exhausted" value={number(stats.exhausted)} warn={stats.exhausted > 0} />
              <Tile label="Response time" value={millis(stats.p50_latency_ms)} about={`p95 ${millis(stats.p95_latency_ms)}`} />
            </div>
            <p>
              <a href={href("deliveries", { endpoint_id: id })}>Its deliveries</a>
            </p>
            {may("write") && (
              <div class="actions is-start">
                <button type="button" onClick={() => setAsked("edit")}>
                  Edit
                </button>
                <button type="button" class="quiet" disabled={busy} onClick={() => void run(async () => { await patch(path, { enabled: !endpoint.enabled }); shown.reload(); })}>
                  {endpoint.enabled ? "Switch off" : "Switch on"}
                </button>
                <button type="button" class="quiet" onClick={() => setAsked("recover")}>
                  Recover
                </button>
                <button type="button" class="danger" onClick={() => setAsked("purge")}>
                  Purge
                </button>
                <button type="button" class="danger" onClick={() => setAsked("delete")}>
                  Delete
                </button>
              </div>
            )}
            <Failure error={error} />
            {may("write") && <Test path={path} />}
            {/* A secret that was shown may be another one after a change. */}
            <Signing key={endpoint.updated_at} path={path} may={endpoint.has_custom_signing_secret || may("account")} />
            <section>
              <h2>Events</h2>
              <ul>
                {(endpoint.events.includes("*" as never) ? Object.keys(EVENT) : endpoint.events).map((name) => (
                  <li key={name}>
                    <code>{name}</code> {EVENT[name]}
                  </li>
                ))}
              </ul>
            </section>
            {asked === "edit" && <Edit endpoint={endpoint} close={() => setAsked("")} done={() => { setAsked(""); shown.reload(); }} />}
            {asked === "recover" && <Recover path={path} close={() => { setAsked(""); shown.reload(); }} />}
            {asked === "purge" && (
              <Confirm title="Purge" about={<p>All deliveries that wait for this endpoint are given up without another attempt.</p>} action="Purge" typed={new URL(endpoint.url).host}
                command={asCurl("DELETE", `/v1/webhook-deliveries?endpoint_id=${id}`)} close={() => setAsked("")}
                work={() => remove("/v1/webhook-deliveries", { endpoint_id: id }).then(shown.reload)} />
            )}
            {asked === "delete" && (
              <Confirm title="Delete the endpoint" about={<p>Deliveries that still wait for it will fail.</p>} action="Delete"
                typed={new URL(endpoint.url).host} command={asCurl("DELETE", path)} close={() => setAsked("")} work={() => remove(path).then(() => go(href("webhooks")))} />
            )}
          </>
        )}
      </Faces>
    </>
  );
}

/** What each event looks like; the same for everybody, and so asked for without a session. */
const eventTypes = (signal: AbortSignal) =>
  call<{ data: M["EventType"][] }>("GET", "/v1/event-types", { isPublic: true, signal });

function Example({ name }: { name: string }) {
  const types = useLoad(eventTypes, []);
  return (
    <Faces of={types}>
      {({ data }) => {
        const found = data.find((type) => type.name === name);
        return found ? (
          <>
            <p class="fine">{found.description}</p>
            <pre tabIndex={0} aria-label={`An example of ${name}`}>{JSON.stringify(found.example, null, 2)}</pre>
          </>
        ) : null;
      }}
    </Faces>
  );
}

function Test({ path }: { path: string }) {
  const [event, setEvent] = useState("");
  const [result, setResult] = useState<M["TestResult"]>();
  const { busy, error, run } = useAction();
  return (
    <section>
      <h2>Test</h2>
      <div class="filters is-wide">
        <Field label="Event to send" name="test-event" value={event} onChange={(chosen) => setEvent(chosen.currentTarget.value)}>
          <option value="">webhook.test, a test without content</option>
          {Object.keys(EVENT).map((name) => (
            <option key={name} value={name}>
              an example of {name}
            </option>
          ))}
        </Field>
        <button type="button" disabled={busy} onClick={() => void run(async () => { setResult(undefined); setResult(await post<M["TestResult"]>(`${path}/test`, event ? { event } : undefined)); })}>
          Send a test
        </button>
      </div>
      {event && (
        <details>
          <summary>What it looks like</summary>
          <Example name={event} />
        </details>
      )}
      <Failure error={error} />
      {result && (
        <p role="status" class={result.ok ? "is-good" : "failure"}>
          {result.ok ? "The receiver accepted it" : result.error?.message ?? "It failed"}: status {result.http_status || "none"} after {number(result.elapsed_ms)} ms, signed with{" "}
          {result.signed_with === "endpoint" ? "the endpoint's secret" : "the account's default secret"}
        </p>
      )}
    </section>
  );
}

// While a secret is exchanged a request bears a signature by each of the two: one that fits is enough.
export const SNIPPETS: [string, (secret: string) => string][] = [
  ["Node.js", (secret) => `import { createHmac, timingSafeEqual } from "node:crypto";

// body: the raw bytes of the request; header: X-Gateway-Signature
export function verify(body, header) {
  const parts = header.split(",").map((part) => part.split("="));
  const at = parts.find(([name]) => name === "t")[1];
  if (Math.abs(Date.now() / 1000 - Number(at)) > 300) return false;
  const ours = createHmac("sha256", ${JSON.stringify(secret)}).update(at + ".").update(body).digest();
  return parts.some(([name, value]) => {
    const theirs = Buffer.from(name === "v1" ? value : "", "hex");
    return ours.length === theirs.length && timingSafeEqual(ours, theirs);
  });
}`],
  ["Python", (secret) => `import hashlib, hmac, time

def verify(body: bytes, header: str) -> bool:
    parts = [part.split("=", 1) for part in header.split(",")]
    at = next(value for name, value in parts if name == "t")
    if abs(time.time() - int(at)) > 300:
        return False
    ours = hmac.new(${JSON.stringify(secret)}.encode(), at.encode() + b"." + body, hashlib.sha256).hexdigest()
    return any(hmac.compare_digest(ours, value) for name, value in parts if name == "v1")`],
  ["PHP", (secret) => `function verify(string $body, string $header): bool {
    $at = null;
    $sent = [];
    foreach (explode(",", $header) as $part) {
        [$name, $value] = explode("=", $part, 2);
        if ($name === "t") { $at = $value; } elseif ($name === "v1") { $sent[] = $value; }
    }
    if ($at === null || abs(time() - (int) $at) > 300) return false;
    $ours = hash_hmac("sha256", $at . "." . $body, ${JSON.stringify(secret).replaceAll("$", "\\$")});
    foreach ($sent as $value) {
        if (hash_equals($ours, $value)) return true;
    }
    return false;
}`],
  ["Ruby", (secret) => `require "openssl"

def verify(body, header)
  parts = header.split(",").map { |part| part.split("=", 2) }
  at = parts.assoc("t")&.last
  return false if at.nil? || (Time.now.to_i - at.to_i).abs > 300
  ours = OpenSSL::HMAC.hexdigest("SHA256", ${JSON.stringify(secret).replaceAll("#", "\\#")}, at + "." + body)
  parts.any? { |name, value| name == "v1" && OpenSSL.secure_compare(ours, value) }
end`],
  ["Go", (secret) => `func verify(body []byte, header string) bool {
	var at string
	var sent []string
	for _, part := range strings.Split(header, ",") {
		name, value, _ := strings.Cut(part, "=")
		switch name {
		case "t":
			at = value
		case "v1":
			sent = append(sent, value)
		}
	}
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > 5*time.Minute {
		return false
	}
	mac := hmac.New(sha256.New, []byte(${JSON.stringify(secret)}))
	mac.Write([]byte(at + "."))
	mac.Write(body)
	ours := mac.Sum(nil)
	for _, value := range sent {
		if theirs, err := hex.DecodeString(value); err == nil && hmac.Equal(ours, theirs) {
			return true
		}
	}
	return false
}`],
];

function Signing({ path, may }: { path: string; may: boolean }) {
  const [secret, setSecret] = useState<M["SigningSecret"]>();
  const [language, setLanguage] = useState("Node.js");
  const { busy, error, run } = useAction();
  const code = SNIPPETS.find(([name]) => name === language)![1](secret?.signing_secret ?? "whsec_...");
  return (
    <section>
      <h2>Signature</h2>
      <p>
        Every request carries <code>X-Gateway-Signature: t=SECONDS,v1=HEX</code>: HMAC-SHA256 of <code>t.body</code> under the secret.
      </p>
      {secret ? (
        <p>
          <code>{secret.signing_secret}</code> <CopyButton text={secret.signing_secret}>Copy</CopyButton>{" "}
          {secret.is_default && "(the account's default)"}
        </p>
      ) : !may ? (
        <p class="fine">It is the account's default secret, which only owners and admins can see.</p>
      ) : (
        <p>
          <button type="button" class="quiet" disabled={busy} onClick={() => void run(async () => setSecret(await get<M["SigningSecret"]>(`${path}/signing-secret`)))}>
            Show the secret
          </button>{" "}
          <span class="fine">Showing it is recorded in the audit log.</span>
        </p>
      )}
      <Failure error={error} />
      <div class="code">
        <Field label="Language" name="language" value={language} onChange={(event) => setLanguage(event.currentTarget.value)}>
          {SNIPPETS.map(([name]) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </Field>
        <CopyButton text={code}>Copy the code</CopyButton>
        <pre tabIndex={0}>{code}</pre>
      </div>
    </section>
  );
}

function Recover({ path, close }: { path: string; close: () => void }) {
  const [hours, setHours] = useState("24");
  const [counted, setCounted] = useState<number>();
  const [done, setDone] = useState<number>();
  const { busy, error, run } = useAction();
  const body = (dry: boolean) => ({
    since: new Date(nodeTime() - Number(hours) * 3_600_000).toISOString(),
    states: ["exhausted"],
    ...(dry && { dry_run: true }),
  });
  return (
    <Dialog title="Recover deliveries" close={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void run(async () => {
            const { matched } = await post<{ matched: number }>(`${path}/recover`, body(counted === undefined));
            (counted === undefined ? setCounted : setDone)(matched);
          });
        }}
      >
        <p>Retries deliveries that were given up, with the same event ids.</p>
        <Field label="From the last hours" name="since" type="number" required min={1} max={720} value={hours} error={error}
          onInput={(event) => { setHours(event.currentTarget.value); setCounted(undefined); setDone(undefined); }} />
        <Failure error={error} />
        {done !== undefined && <p role="status">{number(done)} deliveries will be retried.</p>}
        <FormEnd close={close} label={counted === undefined ? "Count them" : `Recover ${number(counted)}`} disabled={busy || counted === 0 || done !== undefined} />
      </form>
    </Dialog>
  );
}

function Edit({ endpoint, close, done }: { endpoint?: Endpoint; close: () => void; done: (endpoint: Endpoint) => void }) {
  const [url, setUrl] = useState(endpoint?.url ?? "");
  const [events, setEvents] = useState<string[]>(endpoint?.events ?? (param("events") ? param("events").split(",") : ["*"]));
  const [filter, setFilter] = useState<string>(endpoint?.chat_type_filter ?? "all");
  const [secret, setSecret] = useState("");
  const [headers, setHeaders] = useState("");
  const [bare, setBare] = useState(false);
  const { busy, error, run } = useAction();
  const isShown = useShown();
  const known = Object.keys(endpoint?.headers ?? {});
  const wrong = error?.issues().filter((issue) => issue.path[0] === "headers") ?? [];
  const every = events.includes("*");
  const [example, setExample] = useState("message.received");
  const channel = param("channel");
  const toggle = (name: string, on: boolean) => setEvents(on ? [...events.filter((other) => other !== "*"), name] : events.filter((other) => other !== name));
  const save = async () => {
    const pairs = bare ? [] : headers.split("\n").map((line) => line.split(/:(.*)/)).filter(([name]) => name?.trim());
    const body = {
      url,
      events,
      chat_type_filter: filter,
      ...(secret && { signing_secret: secret }),
      ...((bare || pairs.length > 0) && { headers: Object.fromEntries(pairs.map(([name, value]) => [name!.trim(), (value ?? "").trim()])) }),
      ...(!endpoint && channel && { channel_id: channel }),
    };
    const saved = endpoint ? await patch<Endpoint>(`/v1/webhook-endpoints/${endpoint.id}`, body) : await post<Endpoint>("/v1/webhook-endpoints", body);
    if (isShown()) done(saved);
    else say("The endpoint is saved");
  };
  return (
    <Dialog title={endpoint ? "Edit the endpoint" : "Add an endpoint"} close={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void run(save);
        }}
      >
        <Field label="URL" name="url" type="url" required autofocus placeholder="https://example.com/hook" value={url} error={error} onInput={(event) => setUrl(event.currentTarget.value)} />
        {channel && !endpoint && <p class="fine">It receives the events of one channel only.</p>}
        <fieldset>
          <legend>Events</legend>
          <label class="check">
            <input type="checkbox" checked={every} onChange={(event) => setEvents(event.currentTarget.checked ? ["*"] : ["message.received"])} /> All events, including future ones
          </label>
          {!every && (
            <div class="picker">
              {Object.entries(EVENT).map(([name, about]) => (
                <label key={name} class="check">
                  <input type="checkbox" checked={events.includes(name)} onChange={(event) => toggle(name, event.currentTarget.checked)} />{" "}
                  <span>
                    <code>{name}</code> <span class="fine">{about}</span>
                  </span>
                </label>
              ))}
            </div>
          )}
          <details>
            <summary>What an event looks like</summary>
            <Field label="Event" name="example" value={example} onChange={(chosen) => setExample(chosen.currentTarget.value)}>
              {Object.keys(EVENT).map((name) => (
                <option key={name} value={name}>
                  {name}
                </option>
              ))}
            </Field>
            <Example name={example} />
          </details>
        </fieldset>
        <Field label="Chats" name="chat_type_filter" value={filter} error={error} onChange={(event) => setFilter(event.currentTarget.value)}>
          {Object.entries(CHATS).map(([word, about]) => (
            <option key={word} value={word}>
              {about}
            </option>
          ))}
        </Field>
        <Field label={endpoint?.has_custom_signing_secret ? "New signing secret" : "Signing secret"} name="signing_secret" autocomplete="off" value={secret} error={error}
          hint="16 to 255 characters. Leave empty to keep the current one, or the account's default." onInput={(event) => setSecret(event.currentTarget.value)} />
        <div class={wrong.length > 0 ? "field is-wrong" : "field"}>
          <label for="headers">Extra headers</label>
          <textarea id="headers" rows={2} placeholder="X-Api-Key: value" disabled={bare} aria-invalid={wrong.length > 0} aria-describedby="headers-about" value={headers} onInput={(event) => setHeaders(event.currentTarget.value)} />
          <p id="headers-about" class="fine">
            {wrong.length > 0 ? wrong.map((issue) => issue.message).join("; ") : known.length > 0 && `Currently: ${known.join(", ")}. What you enter here replaces them.`}
          </p>
        </div>
        {known.length > 0 && (
          <label class="check">
            <input type="checkbox" checked={bare} onChange={(event) => setBare(event.currentTarget.checked)} /> Remove them
          </label>
        )}
        <Failure error={error} />
        <FormEnd close={close} label="Save" disabled={busy || events.length === 0} />
      </form>
    </Dialog>
  );
}
