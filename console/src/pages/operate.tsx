// What operators look after beside the cluster itself: customers, their channels and webhooks, traces, tickets, backups.
import { useState } from "preact/hooks";
import { type Page, asCurl, get, post, remove } from "../api";
import { Badge, Confirm, CopyButton, Dialog, Faces, Failure, Field, Id, Pages, Secret, Table, Theirs, Time, Title, number, param, plain, useAction, useLoad, usePages } from "../parts";
import { go, href } from "../router";
import type { O } from "../types";

const PAGE = 100;

function useList<T>(path: string, query: Record<string, string>) {
  return usePages<T>((cursor, signal) => get(path, { ...query, limit: PAGE, cursor }, signal), [path, query], { every: 10_000 });
}

export function Customers() {
  const list = useList<O["Customer"]>("/v1/admin/customers", {});
  const [making, setMaking] = useState(false);
  const [gone, setGone] = useState<O["Customer"]>();
  return (
    <>
      <Title
        extra={
          <button type="button" onClick={() => setMaking(true)}>
            Create a customer
          </button>
        }
      >
        Customers
      </Title>
      <Faces of={list} isEmpty={({ data }) => data.length === 0} empty={<p>There is no customer yet.</p>}>
        {({ data }) => (
          <>
            <Table
              name="Customers"
              rows={data}
              id={(row) => row.id}
              columns={[
                { head: "Name", cell: (row) => <Theirs text={row.name} /> },
                { head: "Plan", cell: (row) => `${row.plan.name} (${row.plan.status})` },
                { head: "Channels", cell: (row) => <a href={href("channels", { customer_id: row.id })}>{`${row.channels.connected} of ${row.channels.total} connected`}</a> },
                { head: "Calls", cell: (row) => `${row.limits.customer.burst}, ${row.limits.customer.refill_per_second} a second` },
                { head: "Created", cell: (row) => <Time at={row.created_at} /> },
                { head: "Id", cell: (row) => <Id id={row.id} /> },
                {
                  head: "",
                  cell: (row) => (
                    <button type="button" class="danger" onClick={() => setGone(row)}>
                      Delete
                    </button>
                  ),
                },
              ]}
            />
            <Pages of={list} />
          </>
        )}
      </Faces>
      {making && <CreateCustomer close={() => { setMaking(false); list.reload(); }} />}
      {gone && (
        <Confirm title="Delete the customer" about={<p>Keys, sessions and channels end at once; the data goes after a time of grace.</p>} action="Delete" typed={gone.name}
          command={asCurl("DELETE", `/v1/admin/customers/${gone.id}`)} close={() => setGone(undefined)} work={() => remove(`/v1/admin/customers/${gone.id}`).then(list.reload)} />
      )}
    </>
  );
}

function CreateCustomer({ close }: { close: () => void }) {
  const [name, setName] = useState("");
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  const [made, setMade] = useState<O["CreatedCustomer"]>();
  const { busy, error, run } = useAction();
  if (made) {
    return (
      <Dialog title={made.name} close={close}>
        <Secret label="The first API key" secret={made.api_key.secret} />
        <Failure error={error} />
        <div class="actions">
          <button type="button" onClick={close}>
            Done
          </button>
        </div>
      </Dialog>
    );
  }
  const create = async () => {
    const customer = await post<O["CreatedCustomer"]>("/v1/admin/customers", { name });
    setMade(customer);
    if (email) await post(`/v1/admin/customers/${customer.id}/users`, { email, password, role: "owner" });
  };
  return (
    <Dialog title="Create a customer" close={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void run(create);
        }}
      >
        <Field label="Name" name="name" required maxLength={120} autofocus value={name} error={error} onInput={(event) => setName(event.currentTarget.value)} />
        <Field label="E-mail address of its owner" name="email" type="email" value={email} error={error} hint="Who signs in to the console; may be left out." onInput={(event) => setEmail(event.currentTarget.value)} />
        {email && (
          <Field label="The owner's first password" name="password" type="password" autocomplete="new-password" required minLength={12} maxLength={128} value={password} error={error}
            onInput={(event) => setPassword(event.currentTarget.value)} />
        )}
        <Failure error={error} />
        <div class="actions">
          <button type="submit" disabled={busy}>
            Create
          </button>
        </div>
      </form>
    </Dialog>
  );
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

export function Backup() {
  const secrets = useLoad((signal) => get<O["Secrets"]>("/v1/admin/secrets", {}, signal), [], { every: 5_000 });
  const format = useLoad((signal) => get<O["ClusterFormat"]>("/v1/admin/format", {}, signal), []);
  const [job, setJob] = useState<string>();
  const [to, setTo] = useState("");
  const { busy, error, run } = useAction();
  return (
    <>
      <Title>Backup and secrets</Title>
      <h2>Backup</h2>
      <form
        class="filters"
        onSubmit={(event) => {
          event.preventDefault();
          void run(async () => setJob((await post<O["BackupJob"]>("/v1/admin/backup", { to })).job_id));
        }}
      >
        <Field label="To" name="to" required placeholder="/var/backups/gateway" value={to} error={error} hint="An empty folder of the node that serves this page, or s3://BUCKET/PREFIX." onInput={(event) => setTo(event.currentTarget.value)} />
        <button type="submit" disabled={busy}>
          Start a backup
        </button>
      </form>
      <Failure error={error} />
      {job && <Job key={job} id={job} />}
      <p class="fine">
        To restore: <code>gateway restore --from FOLDER --master-key-file master.key</code>, with the master key of its time; <code>gateway restore --help</code> says the rest.
      </p>
      <h2>Secrets</h2>
      <Faces of={secrets}>
        {(shown) => (
          <>
            <p>
              Master key <code>{shown.master_key}</code> <Badge status={shown.state} /> {number(shown.data_keys)} data keys, {number(shown.remaining)} still under another one
              {shown.exchange?.old_key_may_go && ". The former key may go."}
            </p>
            <Table
              name="Nodes' master keys"
              rows={shown.nodes}
              id={(row) => String(row.node_id)}
              columns={[
                { head: "Node", cell: (row) => row.node_id },
                { head: "Has", cell: (row) => (row.master_keys ?? []).join(", ") },
                { head: "Problem", cell: (row) => row.error ?? "–" },
              ]}
            />
          </>
        )}
      </Faces>
      <h2>Releases</h2>
      <Faces of={format}>
        {(shown) => (
          <>
            <p>
              The cluster's format is {shown.format}
              {shown.highest !== null && `; all nodes understand ${shown.highest}`}.
            </p>
            <Table
              name="Releases of nodes"
              rows={shown.nodes}
              id={(row) => String(row.id)}
              columns={[
                { head: "Node", cell: (row) => row.id },
                { head: "Release", cell: (row) => row.version ?? "–" },
                { head: "Understands", cell: (row) => row.understands ?? "–" },
              ]}
            />
          </>
        )}
      </Faces>
    </>
  );
}

function Job({ id }: { id: string }) {
  const job = useLoad((signal) => get<O["BackupJob"]>(`/v1/admin/backup/jobs/${id}`, {}, signal), [id], { every: 2_000 });
  return (
    <Faces of={job}>
      {(shown) => (
        <p role="status">
          <Badge status={shown.state} /> to <code>{shown.to}</code>, began <Time at={shown.began_at} /> {shown.problem}
        </p>
      )}
    </Faces>
  );
}
