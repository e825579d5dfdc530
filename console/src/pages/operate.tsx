// What operators look after beside the cluster itself: channels of customers, webhooks that are stuck, traces of messages.
import { useState } from "preact/hooks";
import { type Page, asCurl, get, post } from "../api";
import { Badge, CopyButton, Dialog, Faces, Failure, Field, Id, Pages, Table, Theirs, Time, Title, number, param, plain, useAction, useLoad, usePages } from "../parts";
import { go, href } from "../router";
import type { O } from "../types";

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
      <Title>Channels of all customers</Title>
      <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
        <Field label="Customer id" name="customer_id" value={customer} error={list.error} onChange={(event) => go(href("channels", { customer_id: event.currentTarget.value.trim() }))} />
      </form>
      <Failure error={error} />
      <Faces of={list} isEmpty={({ data }) => data.length === 0} empty={<p>There is no channel.</p>}>
        {({ data }) => (
          <>
            <Table
              name="Channels"
              rows={data}
              id={(row) => row.id}
              columns={[
                { head: "Name", cell: (row) => <Theirs text={row.name} /> },
                { head: "Number", cell: (row) => row.phone_number ?? "–" },
                { head: "Status", cell: (row) => <Badge status={row.status} /> },
                { head: "Customer", cell: (row) => <Id id={row.customer_id} /> },
                { head: "Shard", cell: (row) => row.shard ?? "–", end: true },
                { head: "Node", cell: (row) => row.node_id ?? "–", end: true },
                { head: "Epoch", cell: (row) => row.epoch ?? "–", end: true },
                { head: "Id", cell: (row) => <Id id={row.id} /> },
                {
                  head: "",
                  cell: (row) =>
                    row.status === "disabled_by_admin" ? (
                      <button type="button" class="quiet" disabled={busy} onClick={() => void run(async () => { await post(`/v1/admin/channels/${row.id}/enable`); list.reload(); })}>
                        Enable
                      </button>
                    ) : (
                      <button type="button" class="quiet" onClick={() => setOff(row)}>
                        Disable
                      </button>
                    ),
                },
              ]}
            />
            <Pages of={list} />
          </>
        )}
      </Faces>
      {off && <Disable channel={off} close={() => { setOff(undefined); list.reload(); }} />}
    </>
  );
}

function Disable({ channel, close }: { channel: O["PlacedChannel"]; close: () => void }) {
  const [reason, setReason] = useState("");
  const { busy, error, run } = useAction();
  return (
    <Dialog title={`Disable ${plain(channel.name)}`} close={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void run(async () => {
            await post(`/v1/admin/channels/${channel.id}/disable`, { reason });
            close();
          });
        }}
      >
        <p>Its session ends, and nothing but an operator enables it again.</p>
        <Field label="Why" name="reason" maxLength={255} autofocus required value={reason} error={error} hint="Goes into the customer's audit log." onInput={(event) => setReason(event.currentTarget.value)} />
        <Failure error={error} />
        <div class="actions">
          <button type="submit" class="danger" disabled={busy}>
            Disable
          </button>
        </div>
      </form>
    </Dialog>
  );
}

export function Stuck() {
  const list = useLoad((signal) => get<Page<O["StuckEndpoint"]>>("/v1/admin/webhooks/stuck", {}, signal), [], { every: 10_000 });
  return (
    <>
      <Title extra={<CopyButton text={asCurl("GET", "/v1/admin/webhooks/stuck")}>As a command</CopyButton>}>Webhooks that are stuck</Title>
      <Faces of={list} isEmpty={({ data }) => data.length === 0} empty={<p>Nothing waits for long.</p>}>
        {({ data }) => (
          <Table
            name="Endpoints for which deliveries wait"
            rows={data}
            id={(row) => row.endpoint_id}
            columns={[
              { head: "URL", cell: (row) => <Theirs text={row.url} /> },
              { head: "State", cell: (row) => <Badge status={row.state} title={row.disabled_reason ?? undefined} /> },
              { head: "Waiting", cell: (row) => `${number(row.waiting)}${row.or_more ? " or more" : ""}`, end: true },
              { head: "Oldest", cell: (row) => <Time at={row.oldest} /> },
              { head: "Next attempt", cell: (row) => <Time at={row.next_attempt_at} /> },
              { head: "Failing since", cell: (row) => <Time at={row.failing_since} /> },
              { head: "Customer", cell: (row) => <Theirs text={row.customer_name ?? row.customer_id} /> },
              { head: "Id", cell: (row) => <Id id={row.endpoint_id} /> },
            ]}
          />
        )}
      </Faces>
    </>
  );
}

export function Trace() {
  const id = param("id");
  const [typed, setTyped] = useState(id);
  return (
    <>
      <Title>Trace of a message</Title>
      <form
        class="filters"
        role="search"
        onSubmit={(event) => {
          event.preventDefault();
          go(href("trace", { id: typed.trim() }));
        }}
      >
        <Field label="Message id" name="id" required value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
        <button type="submit">Trace</button>
      </form>
      {id && <Steps key={id} id={id} />}
    </>
  );
}

function Steps({ id }: { id: string }) {
  const shown = useLoad((signal) => get<O["MessageTrace"]>(`/v1/admin/messages/${encodeURIComponent(id)}/trace`, {}, signal), [id]);
  return (
    <Faces of={shown}>
      {(trace) => (
        <>
          <p>
            <Badge status={trace.status} /> {trace.direction} {trace.type}, channel <Theirs text={trace.channel_name} />, shard {trace.shard}, node {trace.node_id}, epoch {trace.epoch}
          </p>
          {trace.error && <p class="failure">{trace.error.message}</p>}
          <Table
            name="Steps"
            rows={trace.steps}
            id={(row) => row.at + row.step + row.detail}
            columns={[
              { head: "Time (UTC)", cell: (row) => <code>{row.at.slice(11, 23)}</code> },
              { head: "After", cell: (row) => `${number(Date.parse(row.at) - Date.parse(trace.steps[0]!.at))} ms`, end: true },
              { head: "Step", cell: (row) => row.step },
              { head: "What", cell: (row) => plain(row.detail) },
              { head: "Endpoint", cell: (row) => <Id id={row.endpoint_id} /> },
              { head: "Delivery", cell: (row) => <Id id={row.delivery_id} /> },
            ]}
          />
        </>
      )}
    </Faces>
  );
}
