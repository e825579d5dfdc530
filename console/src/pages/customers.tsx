// Customers, their plans and their limits.
import { useState } from "preact/hooks";
import { type Page, asCurl, asWord, get, nodeTime, patch, post, remove } from "../api";
import { Badge, Confirm, CopyButton, Dialog, Done, Faces, Failure, Field, FormEnd, Id, Pages, Secret, Table, Theirs, Time, Title, asUtc, bytes, number, param, plain, say, useAction, useLoad, useShown } from "../parts";
import { href } from "../router";
import { may } from "../session";
import type { O } from "../types";
import { useList } from "./operate";

type Customer = O["Customer"];

const PATH = "/v1/admin/customers";
const MOST_KEYS = 100;

export function Customers() {
  const id = param("id");
  return id ? <One key={id} id={id} /> : <All />;
}

function All() {
  const list = useList<Customer>(PATH, {});
  const [asked, ask] = useState<{ what: "create" } | { what: "limits" | "suspend" | "delete"; customer: Customer }>();
  const { busy, error, run } = useAction();
  const close = () => {
    ask(undefined);
    list.reload();
  };
  const lift = (row: Customer) => run(() => patch(`${PATH}/${row.id}`, { plan: { overdue_since: null } }).then(list.reload));
  return (
    <>
      <Title
        extra={
          <>
            <CopyButton text="gateway customer list">As a command</CopyButton>
            {may("write") && (
              <button type="button" onClick={() => ask({ what: "create" })}>
                Create a customer
              </button>
            )}
          </>
        }
      >
        Customers
      </Title>
      <Failure error={error} />
      <Faces of={list} isEmpty={({ data }) => data.length === 0} empty={<p>No customers yet.</p>}>
        {({ data }) => (
          <>
            <Table
              name="Customers"
              rows={data}
              id={(row) => row.id}
              columns={[
                { head: "Name", cell: (row) => <a href={href("customers", { id: row.id })}><Theirs text={row.name} /></a> },
                { head: "Plan", cell: (row) => <><Theirs text={row.plan.name} /> <Badge status={row.plan.status} title="" />{row.plan.overdue_since && <p class="fine">cannot send since <Time at={row.plan.overdue_since} /></p>}</> },
                { head: "Channels", cell: (row) => <a href={href("channels", { customer_id: row.id })}>{`${row.channels.connected} of ${row.channels.total} connected`}</a> },
                { head: "Requests", cell: (row) => `${number(row.limits.customer.burst)} at once, ${number(row.limits.customer.refill_per_second)} a second` },
                { head: "Media", cell: (row) => `at most ${bytes(row.limits.storage.media_bytes)}` },
                { head: "Created", cell: (row) => <Time at={row.created_at} /> },
                { head: "Id", cell: (row) => <Id id={row.id} /> },
                {
                  head: "",
                  cell: (row) => may("write") && (
                    <span class="actions">
                      <button type="button" class="quiet" onClick={() => ask({ what: "limits", customer: row })}>
                        Limits
                      </button>
                      {row.plan.overdue_since ? (
                        <button type="button" class="quiet" disabled={busy} onClick={() => void lift(row)}>
                          Let it send again
                        </button>
                      ) : (
                        <button type="button" class="quiet" onClick={() => ask({ what: "suspend", customer: row })}>
                          Suspend
                        </button>
                      )}
                      <button type="button" class="danger" onClick={() => ask({ what: "delete", customer: row })}>
                        Delete
                      </button>
                    </span>
                  ),
                },
              ]}
            />
            <Pages of={list} />
          </>
        )}
      </Faces>
      {asked?.what === "create" && <Create close={close} />}
      {asked?.what === "limits" && <Limits customer={asked.customer} close={close} />}
      {asked?.what === "suspend" && (
        <Confirm title={`Suspend ${plain(asked.customer.name)}`} action="Suspend" command={`gateway customer suspend ${asked.customer.id}`} close={close}
          about={<p>From now on its messages, stories and new channels are refused, as with an overdue payment. It can still read, and its channels stay connected. You can undo this.</p>}
          work={() => patch(`${PATH}/${asked.customer.id}`, { plan: { overdue_since: new Date(nodeTime()).toISOString() } })} />
      )}
      {asked?.what === "delete" && (
        <Confirm title="Delete the customer" about={<p>Keys, sessions and channels stop working at once. The data is deleted after a grace period.</p>} action="Delete" typed={asked.customer.name}
          command={asCurl("DELETE", `${PATH}/${asked.customer.id}`)} close={close} work={() => remove(`${PATH}/${asked.customer.id}`)} />
      )}
    </>
  );
}

/** What a customer has: members, keys, endpoints that are stuck, and the ways to the rest. */
function One({ id }: { id: string }) {
  const path = `${PATH}/${encodeURIComponent(id)}`;
  const shown = useLoad(
    async (signal) => {
      const [customer, users, keys, stuck] = await Promise.all([
        get<Customer>(path, {}, signal),
        get<Page<O["User"]>>(`${path}/users`, {}, signal),
        get<Page<O["OwnedKey"]>>("/v1/admin/keys", { customer_id: id, limit: MOST_KEYS }, signal),
        get<Page<O["StuckEndpoint"]>>("/v1/admin/webhooks/stuck", { customer_id: id }, signal),
      ]);
      return { customer, users: users.data, keys, stuck: stuck.data };
    },
    [id],
    { every: 30_000 },
  );
  return (
    <>
      <p>
        <a href={href("customers")}>‹ Customers</a>
      </p>
      <Title extra={<CopyButton text={asCurl("GET", path)}>As a command</CopyButton>}>{shown.data ? <Theirs text={shown.data.customer.name} /> : "Customer"}</Title>
      <Faces of={shown}>
        {({ customer, users, keys, stuck }) => (
          <>
            <p class="fine">
              <Id id={customer.id} /> · plan <Theirs text={customer.plan.name} /> ({customer.plan.status}) · since <Time at={customer.created_at} />
            </p>
            <p>
              <a href={href("channels", { customer_id: id })}>{`Its channels: ${customer.channels.connected} of ${customer.channels.total} connected`}</a> ·{" "}
              <a href={href("tickets", { customer_id: id })}>Its tickets</a> · <a href={href("audit", { customer_id: id })}>Its audit log</a>
              {stuck.length > 0 && <> · <a href={href("webhooks")}>{`Its webhook endpoints that are stuck: ${number(stuck.length)}`}</a></>}
            </p>
            <h2>Members</h2>
            {users.length === 0 && (
              <p>
                Nobody can sign in yet. Create the first member with <code>{`gateway user create ${id} ADDRESS`}</code>
              </p>
            )}
            {users.length > 0 && (
              <Table
                name="Members"
                rows={users}
                id={(row) => row.id}
                columns={[
                  { head: "E-mail address", cell: (row) => <Theirs text={row.email} /> },
                  { head: "Role", cell: (row) => row.role },
                  { head: "Last login", cell: (row) => <Time at={row.last_login_at} /> },
                  { head: "Created", cell: (row) => <Time at={row.created_at} /> },
                ]}
              />
            )}
            <h2>API keys</h2>
            {keys.data.length === 0 && <p>No API keys yet.</p>}
            {keys.data.length > 0 && (
              <Table
                name="API keys"
                rows={keys.data}
                id={(row) => row.id}
                columns={[
                  { head: "Name", cell: (row) => <Theirs text={row.name} /> },
                  { head: "Prefix", cell: (row) => <code>{row.prefix}</code> },
                  { head: "Scopes", cell: (row) => row.scopes.join(", ") || "everything" },
                  { head: "Channel", cell: (row) => (row.channel_id ? <Id id={row.channel_id} /> : "all") },
                  { head: "Last used", cell: (row) => <Time at={row.last_used_at} /> },
                  { head: "Expires", cell: (row) => <Time at={row.expires_at} /> },
                ]}
              />
            )}
            {keys.next_cursor && <p class="fine">These are the newest {number(MOST_KEYS)}; <code>{`gateway keys --customer ${id}`}</code> lists all.</p>}
          </>
        )}
      </Faces>
    </>
  );
}

function Create({ close }: { close: () => void }) {
  const [name, setName] = useState("");
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  const [made, setMade] = useState<O["CreatedCustomer"]>();
  const { busy, error, run } = useAction();
  const isShown = useShown();
  if (made) {
    return (
      <Dialog title={plain(made.name)} close={close}>
        <Secret label="The first API key" secret={made.api_key.secret} />
        <Failure error={error} />
        <Done close={close} />
      </Dialog>
    );
  }
  const create = async () => {
    const customer = await post<O["CreatedCustomer"]>(PATH, { name });
    if (isShown()) setMade(customer);
    else say(`${plain(customer.name)} was created, but nobody has seen its first key`);
    if (email) await post(`${PATH}/${customer.id}/users`, { email, password, role: "owner" });
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
        <Field label="E-mail address of its owner" name="email" type="email" value={email} error={error} hint="They can sign in to the console. Optional." onInput={(event) => setEmail(event.currentTarget.value)} />
        {email && (
          <Field label="The owner's first password" name="password" type="password" autocomplete="new-password" required minLength={12} maxLength={128} value={password} error={error}
            onInput={(event) => setPassword(event.currentTarget.value)} />
        )}
        <Failure error={error} />
        <FormEnd close={close} label="Create" disabled={busy} />
      </form>
    </Dialog>
  );
}

const STORAGE: [keyof O["StorageLimits"], string][] = [
  ["media_bytes", "Bytes of media"],
  ["message_bytes", "Bytes of messages"],
  ["keys", "API keys"],
  ["endpoints", "Webhook endpoints"],
  ["labels", "Labels of a channel"],
  ["tickets_open", "Open tickets"],
];

const BUCKETS: ["customer" | "channel", string][] = [
  ["customer", "Requests of the account"],
  ["channel", "Requests on a channel"],
];

/** What was changed is sent, and nothing else: what another operator changes meanwhile stays. */
function Limits({ customer, close }: { customer: Customer; close: () => void }) {
  const { plan, limits } = customer;
  const [changed, change] = useState<Record<string, string>>({});
  const { busy, error, run } = useAction();
  const text = (name: string, now: string | number | null) => changed[name] ?? String(now ?? "");
  const set = (name: string, now: string | number | null, value: string) => {
    const { [name]: _, ...others } = changed;
    change(value === String(now ?? "") ? others : { ...others, [name]: value });
  };
  const body = () => {
    const asked = { plan: {} as Record<string, unknown>, limits: { storage: {} } as Record<string, any> };
    for (const [name, value] of Object.entries(changed)) {
      const [group, key, part] = name.split(".") as [string, string, string | undefined];
      if (group === "plan") asked.plan[key] = key === "name" ? value : key === "trial_ends_at" ? (value === "" ? null : asUtc(value)) : value === "" ? null : Number(value);
      else if (key === "storage") asked.limits["storage"][part!] = value === "" ? null : Number(value);
      // A bucket is given whole; without a burst it is the deployment's again.
      else asked.limits[key] = bucket(key as "customer" | "channel");
    }
    return asked;
  };
  const bucket = (of: "customer" | "channel") => {
    const value = (part: "burst" | "refill_per_second") => text(`limits.${of}.${part}`, limits[of][part]);
    return value("burst") === "" ? null : { burst: Number(value("burst")), refill_per_second: Number(value("refill_per_second")) };
  };
  const command = () => {
    const names = Object.keys(changed).map((name) => (/^limits\.(customer|channel)\./.test(name) ? name.slice(0, name.lastIndexOf(".")) : name));
    const words = [...new Set(names)].flatMap((name) => {
      const of = name === "limits.customer" ? "customer" : name === "limits.channel" ? "channel" : undefined;
      const value = changed[name] ?? "";
      if (!of) return [`${name}=${value === "" ? "null" : name === "plan.trial_ends_at" ? asUtc(value) : asWord(value)}`];
      const rule = bucket(of);
      return rule ? [`${name}.burst=${rule.burst}`, `${name}.refill_per_second=${rule.refill_per_second}`] : [`${name}=null`];
    });
    return `gateway customer limit ${customer.id} ${words.join(" ")}`;
  };
  const trial = plan.trial_ends_at ? plan.trial_ends_at.slice(0, 16) : null;
  const field = (name: string, label: string, now: string | number | null, more: { type?: string; hint?: string } = {}) => (
    <Field label={label} name={name} type="number" min={0} value={text(name, now)} error={error} {...more} onInput={(event) => set(name, now, event.currentTarget.value)} />
  );
  return (
    <Dialog title={`Plan and limits of ${plain(customer.name)}`} close={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void run(async () => {
            await patch(`${PATH}/${customer.id}`, body());
            say("Saved");
            close();
          });
        }}
      >
        <div class="pair">
          {field("plan.name", "Plan", plan.name, { type: "text" })}
          {field("plan.channel_limit", "Channels", plan.channel_limit, { hint: "Leave empty for no limit." })}
        </div>
        {field("plan.trial_ends_at", "Trial ends (UTC)", trial, { type: "datetime-local", hint: "Leave empty for no trial. After it, the customer can read but not send." })}
        {BUCKETS.map(([of, label]) => (
          <div class="pair" key={of}>
            {field(`limits.${of}.burst`, `${label}, at once`, limits[of].burst, { hint: "Leave empty for the deployment's default." })}
            {field(`limits.${of}.refill_per_second`, `${label}, a second`, limits[of].refill_per_second)}
          </div>
        ))}
        <div class="pair">{STORAGE.map(([name, label]) => field(`limits.storage.${name}`, label, limits.storage[name], { hint: "Leave empty for the default." }))}</div>
        <Failure error={error} />
        {Object.keys(changed).length > 0 && (
          <p class="fine">
            Or run: <code>{command()}</code>
          </p>
        )}
        <FormEnd close={close} label="Save" disabled={busy || Object.keys(changed).length === 0} />
      </form>
    </Dialog>
  );
}
