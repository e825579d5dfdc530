import { get, post, type Page } from "../api";
import { Badge, Confirm, Faces, Failure, Table, Time, useAction, useLoad } from "../parts";
import { go, href } from "../router";
import { may } from "../session";
import type { Channel, M, Status } from "../types";
import { REASON } from "../words";
import { remove } from "../api";
import { useState } from "preact/hooks";

const CALLS: { call: string; label: string; from: Status[]; about: string }[] = [
  { call: "connect", label: "Connect", from: ["pending", "logged_out", "disconnected", "stopped_by_user", "error", "failed"], about: "Opens a session, or shows a code where there are no credentials." },
  { call: "restart", label: "Restart", from: ["qr", "connecting", "reconnecting", "connected", "disconnected", "stopped_by_user", "error", "failed"], about: "Closes the session and opens another one." },
  { call: "disconnect", label: "Disconnect", from: ["qr", "connecting", "reconnecting", "connected", "disconnected"], about: "Closes the session; the credentials are kept." },
  { call: "logout", label: "Log out", from: ["connecting", "reconnecting", "connected", "disconnected", "stopped_by_user", "error", "failed"], about: "Ends the pairing; the phone has to scan a code again." },
];

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
                <button type="button" disabled={busy || !possible} aria-describedby={`about-${call}`} onClick={() => (call === "logout" ? setAsked(call) : void act(call))}>
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
            <p class="fine">Ends the session, forgets the credentials, and takes the channel out of every list.</p>
          </div>
        </div>
      )}
      <Failure error={error} />
      <h2>History</h2>
      <Faces of={history} isEmpty={({ data }) => data.length === 0} empty={<p>Nothing has happened to this channel yet.</p>}>
        {({ data }) => (
          <Table
            name="Status history, the newest first"
            rows={data}
            id={(row) => row.at + row.to}
            columns={[
              { head: "Time", cell: (row) => <Time at={row.at} /> },
              { head: "From", cell: (row) => <Badge status={row.from} /> },
              { head: "To", cell: (row) => <Badge status={row.to} /> },
              { head: "Because", cell: (row) => REASON[row.reason] ?? row.reason },
              { head: "Node", cell: (row) => row.node_id, end: true },
            ]}
          />
        )}
      </Faces>
      {asked === "logout" && (
        <Confirm title="Log out" about={<p>The pairing ends, and the phone has to scan a code again.</p>} action="Log out" close={() => setAsked("")} work={() => post(`/v1/channels/${channel.id}/logout`).then(reload)} />
      )}
      {asked === "delete" && (
        <Confirm
          title="Delete the channel"
          about={<p>Its session ends and its credentials are forgotten. Its deliveries stay readable.</p>}
          action="Delete"
          typed={channel.name}
          close={() => setAsked("")}
          work={() => remove(`/v1/channels/${channel.id}`).then(() => go(href("channels")))}
        />
      )}
    </>
  );
}
