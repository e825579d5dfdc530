import { useRef } from "preact/hooks";
import { get } from "../api";
import { Badge, Faces, Id, Tabs, Theirs, Time, Title, param, useLoad } from "../parts";
import { href } from "../router";
import type { Channel } from "../types";
import { Channels } from "./channels";
import { Chats } from "./chats";
import { Pairing } from "./pairing";
import { Messages } from "./messages";
import { Settings } from "./settings";
import { StatusPart } from "./status";

const TABS: [string, string][] = [
  ["pairing", "Pairing"],
  ["chats", "Chats"],
  ["messages", "Messages"],
  ["status", "Status"],
  ["settings", "Settings"],
];

/** Statuses in which a channel has a session, or will have one by itself. */
export const PAIRED = ["connected", "connecting", "reconnecting", "disconnected"];

export function ChannelPage() {
  const id = param("id");
  return id ? <One key={id} id={id} /> : <Channels />;
}

function One({ id }: { id: string }) {
  const channel = useLoad((signal) => get<Channel>(`/v1/channels/${encodeURIComponent(id)}`, {}, signal), [id], {
    on: (event) => event.data.channel_id === id && event.name.startsWith("channel."),
    every: 5_000,
  });
  // Stays, whatever becomes of the channel: whoever pairs a number is to see that it is connected.
  const first = useRef<string | undefined>(undefined);
  return (
    <>
      <p>
        <a href={href("channels")}>‹ Channels</a>
      </p>
      <Title extra={channel.data && <Badge status={channel.data.status} />}>{channel.data ? <Theirs text={channel.data.name} /> : "Channel"}</Title>
      <Faces of={channel}>
        {(shown) => {
          first.current ??= PAIRED.includes(shown.status) ? "chats" : "pairing";
          const tab = param("tab") || first.current;
          return (
            <>
              <p class="fine">
                {shown.phone_number ? `+${shown.phone_number}` : "no number yet"} · last seen <Time at={shown.last_seen_at} /> · <Id id={shown.id} />
              </p>
              <Tabs tabs={TABS} at={tab} link={(to) => href("channel", { id, tab: to })} />
              {tab === "pairing" && <Pairing channel={shown} reload={channel.reload} />}
              {tab === "chats" && <Chats channel={shown} />}
              {tab === "messages" && <Messages channel={shown} />}
              {tab === "status" && <StatusPart channel={shown} reload={channel.reload} />}
              {tab === "settings" && <Settings channel={shown} />}
            </>
          );
        }}
      </Faces>
    </>
  );
}
