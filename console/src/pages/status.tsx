import { useState } from "preact/hooks";
import { type Page, asCurl, get, nodeTime, post, remove } from "../api";
import { Badge, Confirm, Faces, Failure, Table, Time, useAction, useLoad } from "../parts";
import { go, href } from "../router";
import { may } from "../session";
import type { Channel, M, Status } from "../types";
import { REASON } from "../words";

const CALLS: { call: string; label: string; from: Status[]; about: string }[] = [
  { call: "connect", label: "Connect", from: ["pending", "logged_out", "disconnected", "stopped_by_user", "error", "failed"], about: "Opens a session, or shows a code if there are no credentials." },
  { call: "restart", label: "Restart", from: ["qr", "connecting", "reconnecting", "connected", "disconnected", "stopped_by_user", "error", "failed"], about: "Closes the session and opens a new one." },
  { call: "disconnect", label: "Disconnect", from: ["qr", "connecting", "reconnecting", "connected", "disconnected"], about: "Closes the session; the credentials are kept." },
  { call: "logout", label: "Log out", from: ["connecting", "reconnecting", "connected", "disconnected", "stopped_by_user", "error", "failed"], about: "Ends the pairing; the phone has to scan a code again." },
  { call: "disable", label: "Disable", from: ["pending", "qr", "connecting", "reconnecting", "connected", "disconnected", "logged_out", "stopped_by_user", "error", "failed"], about: "Closes the session and keeps it closed until the channel is enabled." },
  { call: "enable", label: "Enable", from: ["disabled_by_admin"], about: "Lets it run again. If the operator disabled it, only the operator can enable it." },
];

/** How high a status stands in the line: it sends, it is on its way, or it does neither. */
function height(status: Status): ["up" | "draining" | "down", number] {
  if (status === "connected") return ["up", 16];
  return ["qr", "connecting", "reconnecting"].includes(status) ? ["draining", 9] : ["down", 3];
}

/** The changes, the newest first, as a line over time that ends now. */
function Line({ of }: { of: M["StatusChange"][] }) {
  const from = Date.parse(of.at(-1)!.at);
  const to = nodeTime();
  const x = (at: number) => ((at - from) / Math.max(1, to - from)) * 1_000;
  const share = of.reduce((sum, row, index) => sum + (row.to === "connected" ? (index === 0 ? to : Date.parse(of[index - 1]!.at)) - Date.parse(row.at) : 0), 0) / Math.max(1, to - from);
  return (
    <figure class="lines" aria-label="Status over time; the table below says the same">
      <svg viewBox="0 0 1000 20" preserveAspectRatio="none" aria-hidden="true">
        {of.map((row, index) => {
          const [kind, high] = height(row.to);
          const begin = x(Date.parse(row.at));
          const end = index === 0 ? 1_000 : x(Date.parse(of[index - 1]!.at));
          return (
            <rect key={row.at + row.to} class={`stands is-${kind}`} x={begin} width={Math.max(1, end - begin)} y={18 - high} height={high}>
              <title>{`${row.to} from ${row.at}: ${REASON[row.reason] ?? row.reason}`}</title>
            </rect>
          );
        })}
      </svg>
      <figcaption class="fine">
        From <Time at={from} /> until now. Connected {Math.round(share * 100)} % of the time. High: connected; half: connecting; low: not connected.
      </figcaption>
    </figure>
  );
}

export function StatusPart({ channel, reload }: { channel: Channel; reload: () => void }) {
  const history = useLoad(
    (signal) => get<Page<M["StatusChange"]>>(`/v1/channels/${channel.id}/status-history`, { limit: 100 }, signal),
    [channel.id],
    { on: (event) => event.data.channel_id === channel.id && event.name === "channel.status", every: 5_000 },
  );
  const { busy, error, run } = useAction();
  const [asked, setAsked] = useState("");
  const act = (call: string) =>
    run(async () => {
      await post(`/v1/channels/${channel.id}/${call}`);
      reload();
      history.reload();
    });
  return (
    <>
      {may("write") && (
        <div class="calls">
          {CALLS.map(({ call, label, from, about }) => {
            const possible = from.includes(channel.status);
            const why = possible ? about : `Not possible while the channel is ${channel.status}.`;
            return (
              <div key={call}>
                <button type="button" disabled={busy || !possible} aria-describedby={`about-${call}`} onClick={() => (["logout", "disable"].includes(call) ? setAsked(call) : void act(call))}>
                  {label}
                </button>
                <p id={`about-${call}`} class="fine">
                  {why}
                </p>
              </div>
            );
          })}
          <div>
            <button type="button" class="danger" onClick={() => setAsked("delete")}>
              Delete
            </button>
            <p class="fine">Ends the session, deletes the credentials and removes the channel from every list.</p>
          </div>
        </div>
      )}
      <Failure error={error} />
      <h2>History</h2>
      <Faces of={history} isEmpty={({ data }) => data.length === 0} empty={<p>Nothing has happened to this channel yet.</p>}>
        {({ data }) => (
          <>
            <Line of={data} />
            <Table
              name="Status history, the newest first"
              rows={data}
              id={(row) => row.at + row.to}
              columns={[
                { head: "Time", cell: (row) => <Time at={row.at} /> },
                { head: "From", cell: (row) => <Badge status={row.from} /> },
                { head: "To", cell: (row) => <Badge status={row.to} /> },
                { head: "Reason", cell: (row) => <>{REASON[row.reason] ?? row.reason}{row.details && <> (the ban ends <Time at={row.details.ban_until} />)</>}</> },
                { head: "Node", cell: (row) => row.node_id, end: true },
              ]}
            />
          </>
        )}
      </Faces>
      {asked === "logout" && (
        <Confirm title="Log out" about={<p>The pairing ends, and the phone has to scan a code again.</p>} action="Log out" close={() => setAsked("")} work={() => post(`/v1/channels/${channel.id}/logout`).then(reload)} />
      )}
      {asked === "disable" && (
        <Confirm title="Disable" about={<p>The session ends, and the channel does not run again until you press <strong>Enable</strong>. Its credentials are kept.</p>} action="Disable"
          command={asCurl("POST", `/v1/channels/${channel.id}/disable`)} close={() => setAsked("")} work={() => post(`/v1/channels/${channel.id}/disable`).then(reload)} />
      )}
      {asked === "delete" && (
        <Confirm
          title="Delete the channel"
          about={<p>Its session ends and its credentials are deleted. Its deliveries can still be read.</p>}
          action="Delete"
          typed={channel.name}
          command={asCurl("DELETE", `/v1/channels/${channel.id}`)}
          close={() => setAsked("")}
          work={() => remove(`/v1/channels/${channel.id}`).then(() => go(href("channels")))}
        />
      )}
    </>
  );
}
