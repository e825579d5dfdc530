// The cluster as operators see it: how it is, its nodes, its shards, and where they lie.
import { useEffect, useState } from "preact/hooks";
import { type Page, Refused, asCurl, asWord, get, nodeTime, patch, post, remove } from "../api";
import { Badge, type Column, Confirm, CopyButton, Dialog, Faces, Failure, Field, FormEnd, Secret, Table, Tile, Time, Title, bytes, number, param, say, span, useAction, useAnnounced, useLoad } from "../parts";
import { go, href, place } from "../router";
import { may } from "../session";
import { Figures } from "./figures";
import type { O } from "../types";

// Between two looks. An open page is to cost the node less than half a call a second, whatever it shows.
/** Where something moves: one call. */
const OFTEN = { every: 3_000 };
/** Two calls. */
const NOW_AND_THEN = { every: 6_000 };
/** Up to four calls, beside those of the figures. */
const SELDOM = { every: 15_000 };

function Findings({ of, changes }: { of: O["Finding"][]; changes: O["TimelineEntry"][] }) {
  const bad = of.filter((finding) => finding.level !== "ok");
  const since = (row: O["Finding"]) => changes.find((entry) => entry.details["check"] === row.check)?.at;
  const ticket = (row: O["Finding"]) => `${row.check} is ${row.level}${row.node_id ? ` on node ${row.node_id}` : ""}: ${row.message}. ${row.remedy ? `Remedy: ${row.remedy}. ` : ""}Since ${since(row) ?? "an unknown time"}.`;
  const well = of.filter((finding) => finding.level === "ok");
  const columns: Column<O["Finding"]>[] = [
    { head: "Check", cell: (row) => row.check },
    { head: "Level", cell: (row) => <Badge status={row.level} /> },
    { head: "Node", cell: (row) => row.node_id ?? "–" },
    { head: "Message", cell: (row) => row.message },
  ];
  const more: Column<O["Finding"]>[] = [
    { head: "What to do", cell: (row) => row.remedy ?? "–" },
    { head: "Since", cell: (row) => <Time at={since(row)} /> },
    { head: "", cell: (row) => <CopyButton text={ticket(row)}>Copy as a ticket</CopyButton> },
  ];
  const id = (row: O["Finding"]) => row.check + row.message + row.node_id;
  return (
    <>
      {bad.length === 0 ? <p class="is-good">All checks pass.</p> : <Table name="Findings" rows={bad} id={id} columns={[...columns, ...more]} />}
      {well.length > 0 && (
        <details>
          <summary>Checks that pass: {well.length}</summary>
          <Table name="Checks that pass" rows={well} id={id} columns={columns} />
        </details>
      )}
    </>
  );
}

/** Shards that a node leads, of those that it should lead when it is not drained. */
function leads(node: O["Node"]): string {
  return node.owns === null ? "–" : node.owns.length === node.leads ? String(node.leads) : `${node.owns.length} of ${node.leads}`;
}

/** While a node is drained, how far that is. */
function Leads({ of }: { of: O["Node"] }) {
  const left = of.member === "draining" ? of.owns?.length : 0;
  if (!left) return <>{leads(of)}</>;
  return (
    <>
      {leads(of)} <progress max={Math.max(of.leads, left)} value={of.leads - left} aria-label={`Shards that node ${of.id} has handed over`} />
    </>
  );
}

export function Overview() {
  const shown = useLoad(
    async (signal) => {
      const [status, check, nodes] = await Promise.all([
        get<O["ClusterStatus"]>("/v1/admin/status", {}, signal),
        get<O["ClusterCheck"]>("/v1/admin/check", {}, signal),
        get<Page<O["Node"]>>("/v1/admin/nodes", {}, signal),
      ]);
      const ill = check.checks.some((finding) => finding.level !== "ok");
      const changes = ill ? (await get<Page<O["TimelineEntry"]>>("/v1/admin/timeline", { kind: "check", limit: 100 }, signal)).data : [];
      return { status, check, nodes: nodes.data, changes };
    },
    [],
    SELDOM,
  );
  return (
    <>
      <Title extra={<CopyButton text={asCurl("GET", "/v1/admin/status")}>As a command</CopyButton>}>Overview</Title>
      <Faces of={shown}>
        {({ status, check, nodes, changes }) => {
          const channels = status.channels as Record<string, number>;
          const reason = check.checks.find((finding) => finding.check === "lose_a_node");
          return (
            <>
              <div class="tiles">
                <Tile label="Cluster" value={<Badge status={check.status} />} warn={check.status !== "operational"} />
                <Tile label="Any one node can be lost" value={check.can_lose_a_node ? "yes" : "no"} about={check.can_lose_a_node ? undefined : reason?.message} warn={!check.can_lose_a_node} />
                <Tile label="Nodes ready" value={`${status.nodes.ready} of ${status.nodes.total}`} warn={status.nodes.ready < status.nodes.total} />
                <Tile label="Shards ready" value={`${status.shards.ready} of ${status.shards.total}`} warn={status.shards.ready < status.shards.total} />
                <Tile label="Customers" value={number(status.customers)} />
                <Tile label="Webhook endpoints" value={number(status.webhook_endpoints)} />
                <Waiting />
                {Object.entries(channels)
                  .filter(([, count]) => count > 0)
                  .map(([word, count]) => (
                    <Tile key={word} label={`Channels ${word}`} value={number(count)} />
                  ))}
              </div>
              <h2>Findings</h2>
              <Findings of={check.checks} changes={changes} />
              <h2>Nodes</h2>
              <div class="cards">
                {nodes.map((node) => (
                  <article key={node.id} class="card">
                    <h3>
                      <a href={href("nodes")}>Node {node.id}</a> <Badge status={node.state} />
                    </h3>
                    <dl>
                      <dt>Leads</dt>
                      <dd>{leads(node)}</dd>
                      <dt>Sessions</dt>
                      <dd>{number(node.channels_connected)}</dd>
                      <dt>Memory</dt>
                      <dd>{bytes(node.rss_bytes)}</dd>
                      <dt>Disk free</dt>
                      <dd>{bytes(node.disk_free_bytes)}</dd>
                      <dt>fsync p99</dt>
                      <dd>{node.fsync_p99_ms === null ? "–" : `${node.fsync_p99_ms.toFixed(1)} ms`}</dd>
                      <dt>Release</dt>
                      <dd>{node.version ?? "–"}</dd>
                    </dl>
                  </article>
                ))}
              </div>
              <Figures />
              <p class="fine">
                Release {status.version}, format {status.format}, formed <Time at={status.formed_at} />, shown by node {status.node_id}
              </p>
            </>
          );
        }}
      </Faces>
    </>
  );
}

/** Deliveries that wait for longer than they should. Every shard is asked for them: where one does not answer, the rest of the page does
 * not wait for it. */
function Waiting() {
  const { data: stuck, error } = useLoad((signal) => get<Page<O["StuckEndpoint"]>>("/v1/admin/webhooks/stuck", {}, signal), [], { every: 30_000 });
  if (!stuck || error) return <Tile label="Waiting deliveries" value="–" about={error && "not every shard answered"} warn={!!error} />;
  const waiting = stuck.data.reduce((sum, row) => sum + row.waiting, 0);
  const more = stuck.next_cursor || stuck.data.some((row) => row.or_more) ? " or more" : "";
  const endpoints = `at ${number(stuck.data.length)} ${stuck.data.length === 1 ? "endpoint" : "endpoints"}`;
  const about = stuck.data.length === 0 ? "none for more than a minute" : <a href={href("webhooks")}>{endpoints}</a>;
  return <Tile label="Waiting deliveries" value={`${number(waiting)}${more}`} about={about} warn={waiting > 0} />;
}

export function Nodes() {
  const list = useLoad((signal) => get<Page<O["Node"]>>("/v1/admin/nodes", {}, signal), [], OFTEN);
  const [asked, ask] = useState<{ what: "drain" | "remove" | "weigh" | "let-in"; node?: O["Node"] }>();
  const { busy, error, run } = useAction();
  const away = list.data?.data.filter((node) => node.state !== "ready") ?? [];
  return (
    <>
      <Title
        extra={
          <>
            <CopyButton text="gateway nodes">As a command</CopyButton>
            {may("write") && (
              <button type="button" disabled={!list.data} onClick={() => ask({ what: "let-in" })}>
                Add a node
              </button>
            )}
          </>
        }
      >
        Nodes
      </Title>
      <Failure error={error} />
      <Faces of={list}>
        {({ data }) => (
          <Table
            name="Nodes"
            rows={data}
            id={(row) => String(row.id)}
            columns={[
              { head: "Node", cell: (row) => row.id },
              { head: "State", cell: (row) => <Badge status={row.state} /> },
              { head: "Member", cell: (row) => row.member },
              { head: "Zone", cell: (row) => row.zone ?? "–" },
              { head: "Address", cell: (row) => <code>{row.address}</code> },
              { head: "Weight", cell: (row) => row.weight, end: true },
              { head: "Leads", cell: (row) => <Leads of={row} />, end: true },
              { head: "Replicas", cell: (row) => row.replicas, end: true },
              { head: "Sessions", cell: (row) => number(row.channels_connected), end: true },
              { head: "Up since", cell: (row) => <Time at={row.started_at} /> },
              {
                head: "",
                cell: (row) => may("write") && (
                  <span class="actions">
                    {row.member === "draining" ? (
                      <button type="button" class="quiet" disabled={busy} onClick={() => void run(async () => { await post(`/v1/admin/nodes/${row.id}/undrain`); list.reload(); })}>
                        Undrain
                      </button>
                    ) : (
                      <button type="button" class="quiet" onClick={() => ask({ what: "drain", node: row })}>
                        Drain
                      </button>
                    )}
                    <button type="button" class="quiet" onClick={() => ask({ what: "weigh", node: row })}>
                      Change weight
                    </button>
                    <button type="button" class="danger" onClick={() => ask({ what: "remove", node: row })}>
                      Remove
                    </button>
                  </span>
                ),
              },
            ]}
          />
        )}
      </Faces>
      {asked?.what === "drain" && asked.node && (
        <Drain node={asked.node} nodes={list.data?.data ?? []} others={away.filter((other) => other.id !== asked.node!.id)} close={() => { ask(undefined); list.reload(); }} />
      )}
      {asked?.what === "remove" && asked.node && <Remove node={asked.node} close={() => { ask(undefined); list.reload(); }} />}
      {asked?.what === "weigh" && asked.node && <Weigh node={asked.node} close={() => { ask(undefined); list.reload(); }} />}
      {asked?.what === "let-in" && <LetIn zones={[...new Set(list.data?.data.map((node) => node.zone).filter((zone): zone is string => !!zone))]} seed={(list.data?.data.find((node) => node.state === "ready") ?? list.data?.data[0])?.address ?? ""} close={() => ask(undefined)} />}
    </>
  );
}

/** Whether the nodes that are left can bear what a node hands over, by the sessions that they have room for. */
function Rest({ node, nodes }: { node: O["Node"]; nodes: O["Node"][] }) {
  const rest = nodes.filter((other) => other.id !== node.id && other.state === "ready" && other.serves);
  const room = rest.reduce((sum, other) => sum + Math.max(0, other.slots - (other.used ?? 0)), 0);
  const sessions = node.used ?? node.channels_connected ?? 0;
  if (rest.length === 0) return <p class="failure">No other node is ready to take them.</p>;
  return (
    <p class={room < sessions ? "failure" : ""}>
      {rest.length === 1 ? "The other node that is ready has" : `The ${rest.length} other nodes that are ready have`} room for {number(room)} more sessions:{" "}
      {room < sessions ? "not enough. Some channels will have to wait for a place." : "enough."}
    </p>
  );
}

function Drain({ node, nodes, others, close }: { node: O["Node"]; nodes: O["Node"][]; others: O["Node"][]; close: () => void }) {
  const risky = others.length > 0;
  return (
    <Confirm
      title={`Drain node ${node.id}`}
      about={
        <>
          <p>
            Its {node.leads} leads and {number(node.channels_connected)} sessions move to the other nodes. Its replicas stay where they are. You can undo this.
          </p>
          <Rest node={node} nodes={nodes} />
          {risky && (
            <p class="failure">
              Node {others.map((other) => `${other.id} (${other.state})`).join(", ")} is down or drained already. If you drain another one, losing one more may stop
              messages from being sent.
            </p>
          )}
        </>
      }
      action={risky ? "Drain anyway" : "Drain"}
      command={`gateway drain ${node.id}${risky ? " --force" : ""}`}
      close={close}
      work={() => post(`/v1/admin/nodes/${node.id}/drain`, risky ? { force: true } : {})}
    />
  );
}

/** What a removal would leave, and whether it has to be forced since no other node could be lost then. */
async function removal(id: number, signal: AbortSignal): Promise<{ left: O["NodesLeft"]; force: boolean }> {
  const path = `/v1/admin/nodes/${id}/removal`;
  try {
    return { left: (await get<O["NodeRemoval"]>(path, {}, signal)).left, force: false };
  } catch (error) {
    // What cannot be done by force either is said by the answer to this.
    if (!(error instanceof Refused) || error.status !== 400) throw error;
    return { left: (await get<O["NodeRemoval"]>(path, { force: true }, signal)).left, force: true };
  }
}

function Remove({ node, close }: { node: O["Node"]; close: () => void }) {
  const what = useLoad((signal) => removal(node.id, signal), [node.id]);
  const force = what.data?.force ?? false;
  return (
    <Confirm
      title={`Remove node ${node.id}`}
      about={
        <>
          <p>Its {node.replicas} replicas move to other nodes, and its number is never used again. This cannot be undone.</p>
          <Faces of={what}>
            {({ left }) => (
              <p class={left.can_lose_a_node ? "" : "failure"}>
                {left.nodes === 1 ? "1 node is left." : `${left.nodes} nodes are left.`}{" "}
                {left.can_lose_a_node ? "Any one of them can then be lost." : "After that, losing any of them causes an outage. Add another node first, if you can."}
                {left.away.length > 0 && ` Down at the moment: ${left.away.join(", ")}.`}
              </p>
            )}
          </Faces>
        </>
      }
      action={force ? "Remove anyway" : "Remove"}
      typed={String(node.id)}
      ready={what.data !== undefined}
      command={`gateway node remove ${node.id}${force ? " --force" : ""}`}
      close={close}
      work={() => remove(`/v1/admin/nodes/${node.id}`, force ? { force } : {})}
    />
  );
}

function Weigh({ node, close }: { node: O["Node"]; close: () => void }) {
  const [weight, setWeight] = useState(String(node.weight));
  const { busy, error, run } = useAction();
  return (
    <Dialog title={`Change the weight of node ${node.id}`} close={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void run(async () => {
            await patch(`/v1/admin/nodes/${node.id}`, { weight: Number(weight) });
            close();
          });
        }}
      >
        <Field label="Weight" name="weight" type="number" min={1} max={1000} required autofocus value={weight} error={error} hint="Its share of the shards, relative to the other nodes. Apply a layout plan to move them."
          onInput={(event) => setWeight(event.currentTarget.value)} />
        <Failure error={error} />
        <FormEnd close={close} label="Save" disabled={busy} />
      </form>
    </Dialog>
  );
}

function LetIn({ zones, seed, close }: { zones: string[]; seed: string; close: () => void }) {
  const [zone, setZone] = useState(zones[0] ?? "default");
  const [address, setAddress] = useState("");
  const [token, setToken] = useState<O["JoinToken"]>();
  const { busy, error, run } = useAction();
  const line = token ? `echo ${token.token} | gateway join --token - --via ${seed} --advertise ${asWord(address)} --zone ${asWord(zone)}` : "";
  return (
    <Dialog title="Add a node" close={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void run(async () => setToken(await post<O["JoinToken"]>("/v1/admin/tokens", {})));
        }}
      >
        <Field label="Address at which the other nodes reach it" name="advertise" placeholder="node-4.lan:8082" required autofocus value={address} onInput={(event) => setAddress(event.currentTarget.value)} />
        <Field label="Zone" name="zone" list="zones" required value={zone} hint={`Replicas are spread over zones. Existing ${zones.length === 1 ? "zone" : "zones"}: ${zones.join(", ")}.`} onInput={(event) => setZone(event.currentTarget.value)} />
        <datalist id="zones">
          {zones.map((known) => (
            <option key={known} value={known} />
          ))}
        </datalist>
        <Failure error={error} />
        {token ? (
          <>
            <Secret label="Run this on the new machine" secret={line} />
            <p class="fine">
              It works once and expires <Time at={token.expires_at} />. Then run: <code>gateway run --config /etc/gateway/gateway.toml</code>
            </p>
          </>
        ) : (
          <FormEnd close={close} label="Create a token" disabled={busy} />
        )}
      </form>
    </Dialog>
  );
}

/** The orders in which shards are listed. What is equal stays in the order of its numbers. */
const ORDERS: Record<string, [string, (a: O["Shard"], b: O["Shard"]) => number]> = {
  number: ["number", () => 0],
  channels: ["load: most channels first", (a, b) => b.channels - a.channels],
  risk: ["risk: fewest that can be lost first", (a, b) => a.can_lose - b.can_lose],
};

export function Shards() {
  const shown = useLoad(
    async (signal) => {
      const [shards, nodes] = await Promise.all([get<Page<O["Shard"]>>("/v1/admin/shards", {}, signal), get<Page<O["Node"]>>("/v1/admin/nodes", {}, signal)]);
      return { shards: shards.data, nodes: nodes.data };
    },
    [],
    NOW_AND_THEN,
  );
  const sort = param("sort") in ORDERS ? param("sort") : "number";
  // In the address, so that the pages of channels lead here.
  const moving = may("write") ? shown.data?.shards.find((row) => row.kind === "shard" && String(row.id) === param("move")) : undefined;
  const move = (id?: number) => go(href("shards", { sort, move: id === undefined ? "" : String(id) }), true);
  return (
    <>
      <Title extra={<CopyButton text="gateway shards">As a command</CopyButton>}>Shards</Title>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <Field label="Sorted by" name="sort" value={sort} onChange={(event) => go(href("shards", { sort: event.currentTarget.value }), true)}>
          {Object.entries(ORDERS).map(([name, [label]]) => (
            <option key={name} value={name}>
              {label}
            </option>
          ))}
        </Field>
      </form>
      <Faces of={shown}>
        {({ shards, nodes }) => (
          <Table
            name="Shards by nodes"
            rows={shards.toSorted(ORDERS[sort]![1])}
            id={(row) => `${row.kind}-${row.id}`}
            columns={[
              { head: "Shard", cell: (row) => (row.kind === "directory" ? "directory" : row.id) },
              { head: "State", cell: (row) => <Badge status={row.state} /> },
              { head: "Can lose", cell: (row) => row.can_lose, end: true },
              { head: "Channels", cell: (row) => number(row.channels), end: true },
              { head: "Term", cell: (row) => row.term, end: true },
              ...nodes.map(({ id: node }) => ({
                head: `Node ${node}`,
                cell: (row: O["Shard"]) => {
                  const replica = row.replicas.find((replica) => replica.node_id === node);
                  if (!replica) return <span class="none">·</span>;
                  const role = row.leader === node ? "leader" : replica.role;
                  return (
                    <span class={`replica is-${role} is-${replica.state}`}>
                      {role}
                      {replica.state !== "ok" && ` (${replica.state})`}
                      {!!replica.lag && ` −${number(replica.lag)}`}
                    </span>
                  );
                },
              })),
              {
                head: "",
                cell: (row) =>
                  row.kind === "shard" && may("write") ? (
                    <button type="button" class="quiet" onClick={() => move(row.id)}>
                      Move lead
                    </button>
                  ) : null,
              },
            ]}
          />
        )}
      </Faces>
      {moving && <Move shard={moving} nodes={shown.data?.nodes ?? []} close={() => { move(); shown.reload(); }} />}
    </>
  );
}

/** Moves the lead, and a replica with it where the node has none. */
function Move({ shard, nodes, close }: { shard: O["Shard"]; nodes: O["Node"][]; close: () => void }) {
  const votes = (id: number) => shard.replicas.some((replica) => replica.role === "voter" && replica.node_id === id);
  const choices = nodes
    .filter((node) => node.id !== shard.leader && node.state === "ready")
    .map((node) => node.id)
    .sort((a, b) => Number(votes(b)) - Number(votes(a)));
  const [to, setTo] = useState(String(choices[0] ?? ""));
  const { busy, error, run } = useAction();
  return (
    <Dialog title={`Move shard ${shard.id}`} close={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void run(async () => {
            await post(`/v1/admin/shards/${shard.id}/move`, { node_id: Number(to) });
            say("The move has started");
            close();
          });
        }}
      >
        <Field label="New leader" name="node_id" value={to} error={error} onChange={(event) => setTo(event.currentTarget.value)}>
          {choices.map((node) => (
            <option key={node} value={node}>
              {votes(node) ? node : `${node} (a replica is copied there first)`}
            </option>
          ))}
        </Field>
        <p class="fine">Its {number(shard.channels)} channels log in again there, and messages sent meanwhile are queued. The next layout plan may move it back.</p>
        {to && (
          <p class="fine">
            Or run: <code>{`gateway shard move ${shard.id} --to ${to}`}</code>
          </p>
        )}
        <Failure error={error} />
        <FormEnd close={close} label="Move" disabled={busy || !to} />
      </form>
    </Dialog>
  );
}

export function Layout() {
  const shown = useLoad((signal) => get<O["Layout"]>("/v1/admin/layout", {}, signal), [], OFTEN);
  const [plan, setPlan] = useState<O["LayoutPlan"]>();
  const { busy, error, run } = useAction();
  // A plan is kept by no node: its number stands in the address, and after a reload the same moves are worked out again.
  const open = (plan: O["LayoutPlan"] | undefined) => {
    setPlan(plan);
    // Whoever has gone elsewhere meanwhile stays there.
    if (place.value.page === "layout") go(href("layout", { plan: plan && String(plan.number) }), true);
  };
  const make = () => run(async () => open(await post<O["LayoutPlan"]>("/v1/admin/layout/plan")));
  useEffect(() => {
    const before = param("plan");
    if (!before) return;
    void run(async () => {
      const again = await post<O["LayoutPlan"]>("/v1/admin/layout/plan");
      if (String(again.number) !== before) say("The layout has changed since, so this is a new plan");
      open(again);
    });
  }, []);
  const change = shown.data?.change;
  useAnnounced(change ? `The change of the layout is ${change.state}: ${change.done} of ${change.total}.` : undefined);
  const rate = change?.began_at ? change.done / Math.max(1, (nodeTime() - Date.parse(change.began_at)) / 1000) : 0;
  const left = change && rate > 0 ? Math.ceil((change.total - change.done - change.cancelled) / rate) : undefined;
  return (
    <>
      <Title
        extra={
          <>
            <CopyButton text="gateway layout show">As a command</CopyButton>
            <button type="button" disabled={busy || change?.state === "running"} onClick={() => void make()}>
              Plan
            </button>
          </>
        }
      >
        Layout
      </Title>
      <Failure error={error} />
      {plan && change?.state !== "running" && (
        <section class="next">
          <h2>Plan {plan.number}</h2>
          {plan.moves.length === 0 ? (
            <p>Everything is already where it should be.</p>
          ) : (
            <>
              <p>
                It moves {plan.cost.replicas} replicas and {plan.cost.leads} leads; {number(plan.cost.channels)} channels log in again.
              </p>
              <Table
                name="Nodes before and after"
                rows={plan.nodes}
                id={(row) => String(row.node_id)}
                columns={[
                  { head: "Node", cell: (row) => row.node_id },
                  { head: "Weight", cell: (row) => row.weight, end: true },
                  { head: "Leads", cell: (row) => `${row.leads} → ${row.leads_after}`, end: true },
                  { head: "Load", cell: (row) => `${row.load.toFixed(2)} → ${row.load_after.toFixed(2)}`, end: true },
                ]}
              />
              <p class="fine">
                Or run: <code>gateway layout apply --number {plan.number}</code>
              </p>
              {may("write") && (
                <button type="button" disabled={busy} onClick={() => void run(async () => { await post("/v1/admin/layout/apply", { number: plan.number }); open(undefined); shown.reload(); })}>
                  Apply plan {plan.number}
                </button>
              )}
            </>
          )}
        </section>
      )}
      <Faces of={shown}>
        {(layout) => (
          <>
            {layout.change && (
              <section>
                <h2>
                  Change {layout.change.number} <Badge status={layout.change.state} />
                </h2>
                <progress max={layout.change.total} value={layout.change.done} aria-label="Moves that are done" />
                <p>
                  {layout.change.done} of {layout.change.total} moves are done, {layout.change.running} running, {layout.change.waiting} waiting
                  {layout.change.cancelled > 0 && `, ${layout.change.cancelled} cancelled`}
                  {layout.change.state === "running" && left !== undefined && `; ${(rate * 60).toFixed(1)} a minute, about ${span(left * 1_000)} left`}
                </p>
                {layout.change.state === "running" && may("write") && (
                  <button type="button" class="danger" disabled={busy} onClick={() => void run(async () => { await post("/v1/admin/layout/cancel"); shown.reload(); })}>
                    Cancel waiting moves
                  </button>
                )}
                <Table
                  name="Moves"
                  rows={layout.change.moves}
                  id={(row) => String(row.shard)}
                  columns={[
                    { head: "Shard", cell: (row) => row.shard },
                    { head: "From", cell: (row) => row.from.join(", ") },
                    { head: "To", cell: (row) => row.to.join(", ") },
                    { head: "Leader", cell: (row) => row.leader, end: true },
                    { head: "State", cell: (row) => <Badge status={row.state} /> },
                    {
                      head: "Copied",
                      cell: (row) =>
                        row.to_copy_bytes ? (
                          <>
                            <progress max={row.to_copy_bytes} value={row.copied_bytes ?? 0} aria-label={`What shard ${row.shard} has copied`} /> {bytes(row.copied_bytes)} of {bytes(row.to_copy_bytes)}
                          </>
                        ) : (
                          "–"
                        ),
                    },
                    { head: "Started", cell: (row) => <Time at={row.began_at} /> },
                    { head: "Ended", cell: (row) => <Time at={row.ended_at} /> },
                  ]}
                />
              </section>
            )}
            <h2>Now</h2>
            <Table
              name="Where the shards are"
              rows={layout.shards}
              id={(row) => String(row.shard)}
              columns={[
                { head: "Shard", cell: (row) => row.shard },
                { head: "Replicas", cell: (row) => row.replicas.join(", ") },
                { head: "Leader", cell: (row) => row.leader, end: true },
                { head: "Channels", cell: (row) => number(row.channels), end: true },
                { head: "Settled", cell: (row) => (row.settled ? "yes" : "no") },
              ]}
            />
          </>
        )}
      </Faces>
    </>
  );
}
