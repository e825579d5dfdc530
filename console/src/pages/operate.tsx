// What operators look after beside the cluster itself: channels of customers, webhooks that are stuck, traces of messages.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type Page, asCurl, asWord, get, post, withQuery } from "../api";
import { Badge, CopyButton, Dialog, Faces, Failure, Field, FormEnd, Id, Pages, Standing, Table, Theirs, Time, Title, number, param, plain, say, span, useAction, useLoad, usePages } from "../parts";
import { go, href } from "../router";
import { may } from "../session";
import type { O } from "../types";
import { STUCK } from "../words";

const PAGE = 100;

export function useList<T>(path: string, query: Record<string, string>) {
  return usePages<T>((cursor, signal) => get(path, { ...query, limit: PAGE, cursor }, signal), [path, query], { every: 10_000 });
}

export function Placed() {
  const customer = param("customer_id");
  const list = useList<O["PlacedChannel"]>("/v1/admin/channels", { customer_id: customer });
  const [off, setOff] = useState<O["PlacedChannel"]>();
  const { busy, error, run } = useAction();
  return (
    <>
      <Title extra={<CopyButton text={asCurl("GET", withQuery("/v1/admin/channels", { customer_id: customer }))}>As a command</CopyButton>}>Channels of all customers</Title>
      <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
        <Field label="Customer id" name="customer_id" value={customer} error={list.error} onChange={(event) => go(href("channels", { customer_id: event.currentTarget.value.trim() }))} />
      </form>
      <Failure error={error} />
      <Faces of={list} isEmpty={({ data }) => data.length === 0} empty={<p>No channels.</p>}>
        {({ data }) => (
          <>
            <Table
              name="Channels"
              rows={data}
              id={(row) => row.id}
              columns={[
                { head: "Name", cell: (row) => <Theirs text={row.name} /> },
                { head: "Number", cell: (row) => row.phone_number ?? "–" },
                { head: "Status", cell: (row) => <Standing channel={row} /> },
                { head: "Customer", cell: (row) => <Id id={row.customer_id} /> },
                { head: "Shard", cell: (row) => row.shard ?? "–", end: true },
                { head: "Node", cell: (row) => row.node_id ?? "–", end: true },
                { head: "Epoch", cell: (row) => row.epoch ?? "–", end: true },
                { head: "Id", cell: (row) => <Id id={row.id} /> },
                {
                  head: "",
                  cell: (row) => may("write") && (
                    <span class="actions">
                      {row.shard !== null && (
                        // A channel moves with its whole shard.
                        <a class="button is-quiet" href={href("shards", { move: String(row.shard) })}>
                          Move
                        </a>
                      )}
                      {row.status === "disabled_by_admin" ? (
                        <button type="button" class="quiet" disabled={busy} onClick={() => void run(async () => { await post(`/v1/admin/channels/${row.id}/enable`); list.reload(); })}>
                          Enable
                        </button>
                      ) : (
                        <button type="button" class="quiet" onClick={() => setOff(row)}>
                          Disable
                        </button>
                      )}
                    </span>
                  ),
                },
              ]}
            />
            <Pages of={list} />
          </>
        )}
      </Faces>
      {off && (
        <WithReason title={`Disable ${plain(off.name)}`} action="Disable" path={`/v1/admin/channels/${off.id}/disable`} done="The channel is disabled" danger close={() => { setOff(undefined); list.reload(); }}>
          Its session ends, and only an operator can enable it again.
        </WithReason>
      )}
    </>
  );
}

/** Does to something of a customer's what wants a reason, which the customer reads. */
function WithReason({ title, action, path, done, danger, close, children }: { title: string; action: string; path: string; done: string; danger?: boolean; close: () => void; children: ComponentChildren }) {
  const [reason, setReason] = useState("");
  const { busy, error, run } = useAction();
  return (
    <Dialog title={title} close={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void run(async () => {
            await post(path, { reason });
            say(done);
            close();
          });
        }}
      >
        <p>{children}</p>
        <Field label="Reason" name="reason" maxLength={255} autofocus required value={reason} error={error} hint="The customer sees it in the audit log." onInput={(event) => setReason(event.currentTarget.value)} />
        <p class="fine">
          Or run: <code>{asCurl("POST", path, { reason })}</code>
        </p>
        <Failure error={error} />
        <FormEnd close={close} label={action} danger={danger} disabled={busy} />
      </form>
    </Dialog>
  );
}

/** The host of a URL, by which endpoints of one receiver are known. */
function host(url: string): string {
  return URL.canParse(url) ? new URL(url).host : url;
}

/** The endpoints of each host, in the order of the list: the host that has waited longest comes first. */
function byHost(rows: O["StuckEndpoint"][]): [string, O["StuckEndpoint"][]][] {
  const hosts = new Map<string, O["StuckEndpoint"][]>();
  for (const row of rows) hosts.set(host(row.url), [...(hosts.get(host(row.url)) ?? []), row]);
  return [...hosts];
}

export function Stuck() {
  const [asked, ask] = useState<O["StuckEndpoint"]>();
  const list = useLoad((signal) => get<Page<O["StuckEndpoint"]>>("/v1/admin/webhooks/stuck", {}, signal), [], { every: 10_000 });
  return (
    <>
      <Title extra={<CopyButton text="gateway webhooks stuck">As a command</CopyButton>}>Stuck webhooks</Title>
      <Faces of={list} isEmpty={({ data }) => data.length === 0} empty={<p>No webhooks are stuck.</p>}>
        {({ data, next_cursor }) => [
          ...byHost(data).map(([name, rows]) => (
            <section key={name}>
              <h2>
                <Theirs text={name} /> <span class="fine">{`${number(rows.reduce((sum, row) => sum + row.waiting, 0))}${rows.some((row) => row.or_more) ? " or more" : ""} waiting`}</span>
              </h2>
              <Table
                name={`Endpoints at ${plain(name)} for which deliveries wait`}
                rows={rows}
                id={(row) => row.endpoint_id}
                columns={[
                  { head: "URL", cell: (row) => <Theirs text={row.url} /> },
                  { head: "State", cell: (row) => <><Badge status={row.state} title={STUCK[row.state]} />{row.disabled_reason && ` ${row.disabled_reason}`}</> },
                  { head: "Last error", cell: (row) => (row.last_error ? <Theirs text={row.last_error} /> : "–") },
                  { head: "Waiting", cell: (row) => `${number(row.waiting)}${row.or_more ? " or more" : ""}`, end: true },
                  { head: "Oldest", cell: (row) => <Time at={row.oldest} /> },
                  { head: "Next attempt", cell: (row) => <Time at={row.next_attempt_at} /> },
                  { head: "Failing since", cell: (row) => <Time at={row.failing_since} /> },
                  { head: "Last success", cell: (row) => <Time at={row.last_success_at} /> },
                  { head: "Customer", cell: (row) => <Theirs text={row.customer_name ?? row.customer_id} /> },
                  { head: "Id", cell: (row) => <Id id={row.endpoint_id} /> },
                  {
                    head: "",
                    cell: (row) =>
                      row.disabled_reason && may("write") ? (
                        <button type="button" class="quiet" onClick={() => ask(row)}>
                          Switch on
                        </button>
                      ) : null,
                  },
                ]}
              />
            </section>
          )),
          next_cursor && (
            <p key="more" class="fine">
              These have waited longest; <code>gateway webhooks stuck</code> lists all.
            </p>
          ),
        ]}
      </Faces>
      {asked && (
        <WithReason title="Switch on again" action="Switch on" path={`/v1/admin/webhook-endpoints/${asked.endpoint_id}/enable`} done="The endpoint is switched on" close={() => { ask(undefined); list.reload(); }}>
          <Theirs text={asked.url} /> is called again, starting with what has waited longest. If it keeps failing, it is switched off again.
        </WithReason>
      )}
    </>
  );
}

export function Trace() {
  const id = param("id");
  const [typed, setTyped] = useState(id);
  // By the back button and from Ctrl-K, too, the field says what is traced.
  useEffect(() => setTyped(id), [id]);
  const [asked, ask] = useState(0);
  return (
    <>
      <Title extra={id && <CopyButton text={`gateway message trace ${asWord(id)}`}>As a command</CopyButton>}>Trace of a message</Title>
      <form
        class="filters"
        role="search"
        onSubmit={(event) => {
          event.preventDefault();
          // What is traced already may have gone on.
          ask(asked + 1);
          go(href("trace", { id: typed.trim() }));
        }}
      >
        <Field label="Message id" name="id" required value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
        <button type="submit">Trace</button>
      </form>
      {id && <Traces key={id} id={id} asked={asked} />}
    </>
  );
}

/** In each channel that knows the message: both ends of a conversation may be channels here. */
function Traces({ id, asked }: { id: string; asked: number }) {
  const shown = useLoad((signal) => get<Page<O["MessageTrace"]>>(`/v1/admin/messages/${encodeURIComponent(id)}/trace`, {}, signal), [id, asked]);
  return (
    <Faces of={shown} isEmpty={({ data }) => data.length === 0} empty={<p>No channel knows this message.</p>}>
      {({ data }) => data.map((trace, index) => <One key={index} trace={trace} />)}
    </Faces>
  );
}

type Step = O["TraceStep"];

/** What happened to the message itself is told apart from what happened at each endpoint. */
interface Lane {
  name: string;
  steps: Step[];
}

function lanes(steps: Step[]): Lane[] {
  const own = steps.filter((step) => !step.endpoint_id);
  const endpoints = [...new Set(steps.map((step) => step.endpoint_id).filter((id) => id !== null))];
  const of = (id: string) => steps.filter((step) => step.endpoint_id === id);
  // By the end of its id: those that were made within the same minute begin with the same letters.
  return [{ name: "Message", steps: own }, ...endpoints.map((id) => ({ name: `Endpoint …${id.slice(-4)}`, steps: of(id) }))];
}

const at = (step: Step) => Date.parse(step.at);

/** A time without a step that is as long gets a row of its own. */
const GAP_MS = 1_000;

function One({ trace }: { trace: O["MessageTrace"] }) {
  const { steps } = trace;
  const from = steps[0] ? at(steps[0]) : 0;
  return (
    <section>
      <h2>
        <Theirs text={trace.channel_name} />
      </h2>
      <p>
        <Badge status={trace.status} /> {trace.direction} {trace.type} from <Theirs text={trace.from} /> to <Theirs text={trace.to} />
      </p>
      <p class="fine">
        Channel <Id id={trace.channel_id} />, shard {trace.shard}, node {trace.node_id}, epoch {trace.epoch}
        {trace.request_id && <>, request <Id id={trace.request_id} /></>}
        {trace.client_ref && <>, client_ref <Theirs text={trace.client_ref} /></>}
      </p>
      {trace.error && (
        <p class="failure">
          <Theirs text={trace.error.message} /> <code>{trace.error.code}</code>
        </p>
      )}
      {steps.length > 1 && <Axis lanes={lanes(steps)} from={from} to={at(steps.at(-1)!)} />}
      {lanes(steps).map((lane, index) =>
        index === 0 ? (
          <Steps key={lane.name} name="Steps" steps={lane.steps} from={from} />
        ) : (
          <details key={lane.name} open={lane.steps.some((step) => step.step === "next_attempt")}>
            <summary>
              {lane.name}: {outcome(lane.steps)}
            </summary>
            <p class="fine">
              Endpoint <Id id={lane.steps[0]!.endpoint_id} />
            </p>
            <Steps name={`Steps at ${lane.name}`} steps={lane.steps} from={from} />
          </details>
        ),
      )}
    </section>
  );
}

/** How many attempts were made at an endpoint, and what the last step came to. */
function outcome(steps: Step[]): string {
  const attempts = steps.filter((step) => step.step === "attempt").length;
  return `${attempts === 1 ? "1 attempt" : `${attempts} attempts`}; ${plain(steps.at(-1)!.detail)}`;
}

/** The steps of each lane over time. */
function Axis({ lanes, from, to }: { lanes: Lane[]; from: number; to: number }) {
  const x = (step: Step) => ((at(step) - from) / Math.max(1, to - from)) * 994;
  return (
    <figure class="lines" aria-label="Steps over time; the table below says the same">
      {lanes.map((lane) => (
        <div key={lane.name}>
          <span>{lane.name}</span>
          <svg viewBox="0 0 1000 20" preserveAspectRatio="none" aria-hidden="true">
            <rect class="stands" x={0} width={1000} y={9.5} height={1} />
            {lane.steps.map((step, index) => (
              <rect key={index} class="mark" x={x(step)} width={6} y={2} height={16}>
                <title>{`${step.step} after ${span(at(step) - from)}: ${plain(step.detail)}`}</title>
              </rect>
            ))}
          </svg>
        </div>
      ))}
      <figcaption class="fine">
        From {new Date(from).toISOString()} on, {span(to - from)}.
      </figcaption>
    </figure>
  );
}

/** A step, or the time in which none came before it. */
type Row = { step: Step } | { gap: number; before: Step };

function Steps({ name, steps, from }: { name: string; steps: Step[]; from: number }) {
  const rows = steps.flatMap((step, index): Row[] => {
    const gap = index > 0 ? at(step) - at(steps[index - 1]!) : 0;
    return gap >= GAP_MS ? [{ gap, before: step }, { step }] : [{ step }];
  });
  return (
    <Table
      name={name}
      rows={rows.map((row, index) => ({ row, index }))}
      id={({ index }) => String(index)}
      columns={[
        { head: "Time (UTC)", cell: ({ row }) => ("step" in row ? <code title={row.step.at}>{row.step.at.slice(11, 23)}</code> : "") },
        { head: "After", cell: ({ row }) => ("step" in row ? span(at(row.step) - from) : ""), end: true },
        { head: "Step", cell: ({ row }) => ("step" in row ? row.step.step : <span class="none">{span(row.gap)} without a step</span>) },
        { head: "Details", cell: ({ row }) => ("step" in row ? plain(row.step.detail) : <span class="none">until {row.before.step}</span>) },
        ...(steps.some((step) => step.delivery_id) ? [{ head: "Delivery", cell: ({ row }: { row: Row }) => ("step" in row ? <Id id={row.step.delivery_id} /> : "") }] : []),
      ]}
    />
  );
}
