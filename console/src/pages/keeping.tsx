// What keeps the cluster: backups, what its secrets are sealed under, and which releases it runs.
import { useState } from "preact/hooks";
import { type Page, asWord, get, nodeTime, post } from "../api";
import { Badge, Confirm, CopyButton, Faces, Failure, Field, Table, Theirs, Time, Title, number, param, say, useAction, useAnnounced, useLoad } from "../parts";
import { go, href } from "../router";
import { may } from "../session";
import type { O } from "../types";

/** A backup that is older than this is one that somebody forgot; the alert `GatewayBackupOld` says the same. */
const OLD_MS = 2 * 86_400_000;

export function Backup() {
  // In the address, so that a job is found again after a reload.
  const job = param("job");
  const [to, setTo] = useState("");
  const { busy, error, run } = useAction();
  const begin = async () => {
    const { job_id } = await post<O["BackupJob"]>("/v1/admin/backup", { to });
    go(href("backup", { job: job_id }), true);
  };
  return (
    <>
      <Title extra={<CopyButton text={`gateway backup --to ${asWord(to || "FOLDER")}`}>As a command</CopyButton>}>Backup</Title>
      <Last key={job} />
      {may("write") && (
        <form
          class="settings"
          onSubmit={(event) => {
            event.preventDefault();
            void run(begin);
          }}
        >
          <Field label="To" name="to" required placeholder="/var/backups/gateway" value={to} error={error} hint="An empty folder on the node that serves this page, or s3://BUCKET/PREFIX." onInput={(event) => setTo(event.currentTarget.value)} />
          <button type="submit" disabled={busy}>
            Start a backup
          </button>
        </form>
      )}
      <Failure error={error} />
      {job && <Job key={job} id={job} />}
      <Restoring from={to || "FOLDER"} />
    </>
  );
}

function Restoring({ from }: { from: string }) {
  return (
    <p class="fine">
      To restore it on a new machine, run <code>{`gateway restore --from ${asWord(from)} --master-key-file master.key --advertise NODE:8082 --base-url URL`}</code> with the master key that was in use then.{" "}
      <code>gateway restore --help</code> explains the rest.
    </p>
  );
}

/** The last backup that was taken, by whomever. The node does not know where it lies, nor how large it is. */
function Last() {
  const taken = useLoad((signal) => get<Page<O["TimelineEntry"]>>("/v1/admin/timeline", { kind: "backup", limit: 1 }, signal), [], { every: 30_000 });
  return (
    <Faces of={taken} isEmpty={({ data }) => data.length === 0} empty={<p>No backup was taken in the last 90 days.</p>}>
      {({ data: [last] }) => {
        const isOld = nodeTime() - Date.parse(last!.at) > OLD_MS;
        return (
          <p class={isOld ? "stale" : ""}>
            The last backup was taken <Time at={last!.at} /> by <Theirs text={last!.actor.id ?? last!.actor.type} />.{isOld && " That is more than two days ago: take a new one."} To check that it is complete, run{" "}
            <code>gateway backup verify PLACE</code>.
          </p>
        );
      }}
    </Faces>
  );
}

function Job({ id }: { id: string }) {
  const [over, end] = useState(false);
  const job = useLoad(
    async (signal) => {
      const job = await get<O["BackupJob"]>(`/v1/admin/backup/jobs/${encodeURIComponent(id)}`, {}, signal);
      end(job.state !== "running");
      return job;
    },
    [id, over],
    over ? {} : { every: 3_000 },
  );
  useAnnounced(job.data && `The backup is ${job.data.state}.`);
  if (job.error?.status === 404 && !job.data) {
    return <p class="stale">This node does not know that job. Open this page on the node that takes the backup. If that node was restarted meanwhile, there is no backup.</p>;
  }
  return (
    <Faces of={job}>
      {(shown) => (
        <>
          <p>
            <Badge status={shown.state} /> to <code>{shown.to}</code>, started <Time at={shown.began_at} />
            {shown.ended_at && <>, ended <Time at={shown.ended_at} /></>} {shown.problem}
          </p>
          {shown.state === "done" && (
            <>
              <p class="is-good">It was read back and is complete.</p>
              <Restoring from={shown.to} />
            </>
          )}
        </>
      )}
    </Faces>
  );
}

/** An exchange or a rotation: what it does, how it is confirmed, and its call. */
interface Rotation {
  title: string;
  about: string;
  action: string;
  /** What cannot be taken back wants this typed. */
  typed?: string;
  command: string;
  path: string;
}

const ROTATIONS: Rotation[] = [
  {
    title: "Give every customer a new data key",
    about: "Everything sealed with the old keys is sealed again with new ones. The old keys are dropped a day after nothing uses them any more. Nothing is interrupted.",
    action: "Rotate the data keys",
    command: "gateway secrets rotate data-keys",
    path: "/v1/admin/secrets/data-keys/rotate",
  },
  {
    title: "Sign session tokens with a new key",
    about: "Tokens signed with the previous key stay valid until they expire, after 15 minutes at most. Nobody is signed out.",
    action: "Rotate the session key",
    command: "gateway secrets rotate session-key",
    path: "/v1/admin/secrets/session-key/rotate",
  },
  {
    title: "Replace the authority that certifies the nodes",
    about: "Every node has to be reachable. Join tokens that were issued before stop working.",
    action: "Rotate the authority",
    typed: "authority",
    command: "gateway secrets rotate authority",
    path: "/v1/admin/secrets/authority/rotate",
  },
];

/** The key that all nodes were given last, when it is another one than what everything is sealed under. */
function given(secrets: O["Secrets"]): string | undefined {
  const firsts = secrets.nodes.map((node) => node.master_keys?.[0]);
  const [first] = firsts;
  return first && first !== secrets.master_key && firsts.every((key) => key === first) ? first : undefined;
}

function exchangeTo(key: string): Rotation {
  return {
    title: `Seal everything under the master key ${key}`,
    about: "The cluster finishes this by itself, even if a node goes down meanwhile. Keep the old key until this page says that it is no longer needed, and keep it with the backups from before.",
    action: "Exchange the master key",
    typed: key,
    command: "gateway secrets rewrap",
    path: "/v1/admin/keys/rotate",
  };
}

export function Secrets() {
  const secrets = useLoad((signal) => get<O["Secrets"]>("/v1/admin/secrets", {}, signal), [], { every: 3_000 });
  const check = useLoad((signal) => get<O["ClusterCheck"]>("/v1/admin/check", {}, signal), [], { every: 30_000 });
  const [asked, ask] = useState<Rotation>();
  useAnnounced(secrets.data && `The master key is ${secrets.data.state}, and ${number(secrets.data.remaining)} data keys are under another one.`);
  return (
    <>
      <Title extra={<CopyButton text="gateway secrets status">As a command</CopyButton>}>Secrets</Title>
      <Faces of={secrets}>
        {(shown) => (
          <>
            <h2>Master key</h2>
            <p>
              <code>{shown.master_key}</code> <Badge status={shown.state} /> {number(shown.data_keys)} data keys, {number(shown.remaining)} still under another key
            </p>
            {shown.state === "rewrapping" && <progress max={shown.data_keys} value={shown.data_keys - shown.remaining} aria-label="Data keys that are sealed again" />}
            {shown.exchange?.old_key_may_go && (
              <p class="next">
                The old key <code>{shown.exchange.from}</code> is no longer needed: remove <code>secrets.previous_master_key_file</code> from each node's configuration.
              </p>
            )}
            {Object.keys(shown.sealed_under).length > 1 && (
              <ul>
                {Object.entries(shown.sealed_under).map(([key, count]) => (
                  <li key={key}>
                    <code>{key}</code> seals {number(count)} data keys
                  </li>
                ))}
              </ul>
            )}
            <MasterKey secrets={shown} ask={ask} />
            <Table
              name="Nodes' master keys"
              rows={shown.nodes}
              id={(row) => String(row.node_id)}
              columns={[
                { head: "Node", cell: (row) => row.node_id },
                { head: "Master keys", cell: (row) => (row.master_keys ?? []).join(", ") || "–" },
                { head: "Problem", cell: (row) => row.error ?? "–" },
              ]}
            />
            <h2>Other keys</h2>
            <Table
              name="Keys that the cluster makes itself"
              rows={ROTATIONS}
              id={(row) => row.path}
              columns={[
                { head: "Key", cell: (row) => row.title },
                { head: "State", cell: (row) => <Standing of={row} secrets={shown} /> },
                {
                  head: "",
                  cell: (row) => may("write") && (
                    <button type="button" class="quiet" onClick={() => ask(row)}>
                      {row.action}
                    </button>
                  ),
                },
              ]}
            />
          </>
        )}
      </Faces>
      <h2>Certificates</h2>
      <Faces of={check}>
        {({ checks }) => (
          <Table
            name="Certificates of the nodes"
            rows={checks.filter((finding) => finding.check === "certificates")}
            id={(row) => row.message}
            columns={[
              { head: "Level", cell: (row) => <Badge status={row.level} /> },
              { head: "Node", cell: (row) => row.node_id ?? "all" },
              { head: "Message", cell: (row) => row.message },
              { head: "What to do", cell: (row) => row.remedy ?? "–" },
            ]}
          />
        )}
      </Faces>
      {asked && (
        <Confirm title={asked.title} about={<p>{asked.about}</p>} action={asked.action} typed={asked.typed} command={asked.command} close={() => { ask(undefined); secrets.reload(); }}
          work={async () => { await post(asked.path); say("Started"); }} />
      )}
    </>
  );
}

/** What the next step of an exchange is. */
function MasterKey({ secrets, ask }: { secrets: O["Secrets"]; ask: (rotation: Rotation) => void }) {
  const key = given(secrets);
  if (secrets.state === "rewrapping") return null;
  if (key) {
    return (
      <p>
        All nodes have the new key <code>{key}</code>, and nothing is sealed under it yet.{" "}
        {may("write") && (
          <button type="button" class="danger" onClick={() => ask(exchangeTo(key))}>
            Exchange the master key
          </button>
        )}
      </p>
    );
  }
  if (secrets.state === "waiting") return <p class="stale">Not all nodes have the same new master key, with the current one as the previous one. Configure and restart those that are missing below.</p>;
  return (
    <p class="fine">
      To replace it, create a new key (<code>openssl rand -hex 32</code>). On each node, name it in <code>secrets.master_key_file</code> and the current one in{" "}
      <code>secrets.previous_master_key_file</code>, then restart the nodes one after the other. After that, a button to exchange the keys appears here.
    </p>
  );
}

function Standing({ of, secrets }: { of: Rotation; secrets: O["Secrets"] }) {
  const { data_key_rotation: data, session_key: session, authority } = secrets;
  if (of.path.includes("data-keys")) {
    if (!data) return <>never rotated</>;
    return (
      <>
        <Badge status={data.state} /> started <Time at={data.began_at} />
        {data.former_keys > 0 && `, ${number(data.former_keys)} old keys`}
      </>
    );
  }
  if (of.path.includes("session-key")) {
    if (!session.rotated_at) return <>never rotated</>;
    return (
      <>
        rotated <Time at={session.rotated_at} />
        {session.former_until && <>, the previous key expires <Time at={session.former_until} /></>}
      </>
    );
  }
  if (!authority) return <>unknown</>;
  return (
    <>
      <Badge status={authority.state} /> {authority.rotated_at && <>rotated <Time at={authority.rotated_at} /></>}
      {authority.waits_for.length > 0 && `, waiting for node ${authority.waits_for.join(", ")}`}
    </>
  );
}

export function Releases() {
  const format = useLoad((signal) => get<O["ClusterFormat"]>("/v1/admin/format", {}, signal), [], { every: 5_000 });
  const [to, raise] = useState<number>();
  return (
    <>
      <Title extra={<CopyButton text="gateway format show">As a command</CopyButton>}>Releases</Title>
      <Faces of={format}>
        {(shown) => (
          <>
            <p>
              The cluster's format is {shown.format}
              {shown.highest === null ? "; a node does not answer, so it is not known what all nodes understand." : `; all nodes understand ${shown.highest}.`}
            </p>
            {shown.highest !== null && shown.highest > shown.format && (
              <p class="next">
                The format can be raised once you are sure that no node will go back to an older release.{" "}
                {may("write") && (
                  <button type="button" class="danger" onClick={() => raise(shown.highest!)}>
                    Raise to {shown.highest}
                  </button>
                )}
              </p>
            )}
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
      {to !== undefined && (
        <Confirm title={`Raise the format to ${to}`} about={<p>After that, no node can go back to an older release. Only a backup can undo this.</p>} action="Raise" typed={String(to)}
          command="gateway format raise" close={() => { raise(undefined); format.reload(); }} work={() => post("/v1/admin/format/raise")} />
      )}
    </>
  );
}
