import { useState } from "preact/hooks";
import { Refused, asCurl, call, open } from "../api";
import { Confirm, Faces, Failure, Field, say, useAction, useLoad } from "../parts";
import { may } from "../session";
import type { Channel, M } from "../types";

type Settings = M["Settings"];
type Name = Exclude<keyof Settings, "updated_at">;

const FLAGS: [Name, string][] = [
  ["always_online", "Show as online all the time"],
  ["mark_read_on_receive", "Send read receipts as messages arrive"],
  ["simulate_typing", "Show typing before a text is sent"],
  ["link_preview", "Add previews to links"],
  ["auto_download_media", "Download media as it arrives"],
  ["reject_calls", "Reject calls"],
  ["emit_device_sent", "Send events for messages sent on the phone itself"],
  ["ignore_groups", "Ignore groups"],
  ["ignore_broadcasts", "Ignore broadcast lists"],
  ["ignore_newsletters", "Ignore newsletters"],
  ["ignore_stories", "Ignore stories"],
  ["store_bodies", "Keep the text of messages"],
  ["sync_full_history", "Import the phone's whole history at the next pairing"],
];
const TEXTS: [Name, string, string][] = [
  ["device_name", "Name of this device on the phone", "Takes effect at the next pairing."],
  ["reject_call_message", "Message to rejected callers", "Leave empty for none."],
  ["proxy_url", "Proxy", "Takes effect at the next connection. Leave empty for none."],
];
const NUMBERS: [Name, string, string][] = [
  ["history_retention_days", "Days to keep messages", "Leave empty for the deployment's default."],
  ["media_retention_days", "Days to keep media", "Leave empty for the deployment's default."],
  ["auto_download_max_bytes", "Largest media to download, in bytes", ""],
];

const TYPES = ["image", "video", "audio", "document", "sticker"] as const;

/** What a channel begins with. */
const DEFAULTS: Omit<Settings, "updated_at"> = {
  always_online: false,
  auto_download_max_bytes: 26_214_400,
  auto_download_media: true,
  auto_download_types: [...TYPES],
  device_name: "Gateway",
  emit_device_sent: false,
  history_retention_days: null,
  ignore_broadcasts: true,
  ignore_groups: false,
  ignore_newsletters: true,
  ignore_stories: true,
  link_preview: true,
  mark_read_on_receive: false,
  media_retention_days: null,
  presence_on_connect: "unavailable",
  proxy_url: null,
  reject_call_message: null,
  reject_calls: false,
  send_delay_ms: null,
  simulate_typing: false,
  store_bodies: true,
  sync_full_history: false,
};

/** A default in words. */
function inWords(value: unknown): string {
  if (typeof value === "boolean") return value ? "on" : "off";
  return value === null ? "empty" : Array.isArray(value) ? "all" : String(value);
}

export function Settings({ channel }: { channel: Channel }) {
  const path = `/v1/channels/${channel.id}/settings`;
  const loaded = useLoad(
    async (signal) => {
      const response = await open("GET", path, { signal });
      return { settings: (await response.json()) as Settings, etag: response.headers.get("etag") };
    },
    [channel.id],
  );
  const [changes, setChanges] = useState<Partial<Record<Name, unknown>>>({});
  const [resets, setResets] = useState(false);
  const { busy, error, run, clear } = useAction();
  const moved = error instanceof Refused && (error.status === 412 || error.code === "concurrent_modification");
  const act = async (method: "PATCH" | "DELETE", etag: string | null) => {
    const headers: Record<string, string> = etag ? { "if-match": etag } : {};
    await call(method, path, { headers, ...(method === "PATCH" && { body: changes }) });
    setChanges({});
    loaded.reload();
    say(method === "PATCH" ? "Saved" : "All settings were reset to their defaults");
  };
  const change = (name: Name, value: unknown) => setChanges({ ...changes, [name]: value });
  return (
    <Faces of={loaded}>
      {({ settings, etag }) => {
        const now = { ...settings, ...changes } as Settings;
        const label = (name: Name, text: string) => {
          const differs = JSON.stringify(now[name]) !== JSON.stringify(DEFAULTS[name]);
          const marks = [...(name in changes ? ["not saved yet"] : []), ...(differs ? [`changed; the default is ${inWords(DEFAULTS[name])}`] : [])];
          return marks.length > 0 ? `${text} (${marks.join("; ")})` : text;
        };
        return (
          <>
            <form
              class="settings"
              onSubmit={(event) => {
                event.preventDefault();
                void run(() => act("PATCH", etag));
              }}
            >
              <fieldset disabled={!may("write")}>
                {FLAGS.map(([name, text]) => (
                  <label key={name} class="check">
                    <input type="checkbox" name={name} checked={now[name] === true} onChange={(event) => change(name, event.currentTarget.checked)} /> {label(name, text)}
                  </label>
                ))}
                <fieldset>
                  <legend>{label("auto_download_types", "Types of media to download")}</legend>
                  {TYPES.map((type) => (
                    <label key={type} class="check">
                      <input type="checkbox" name={`auto_download_types.${type}`} checked={now.auto_download_types.includes(type)}
                        onChange={(event) => {
                          const on = event.currentTarget.checked;
                          change("auto_download_types", TYPES.filter((other) => (other === type ? on : now.auto_download_types.includes(other))));
                        }} />{" "}
                      {type}
                    </label>
                  ))}
                </fieldset>
                {TEXTS.map(([name, text, hint]) => (
                  <Field key={name} label={label(name, text)} name={name} hint={hint} error={error} value={(now[name] as string | null) ?? ""}
                    onInput={(event) => change(name, event.currentTarget.value || (name === "device_name" ? "" : null))} />
                ))}
                {NUMBERS.map(([name, text, hint]) => (
                  <Field key={name} label={label(name, text)} name={name} hint={hint} error={error} type="number" value={(now[name] as number | null) ?? ""}
                    onInput={(event) => change(name, event.currentTarget.value === "" ? null : Number(event.currentTarget.value))} />
                ))}
                <Field label={label("presence_on_connect", "Presence when connecting")} name="presence_on_connect" value={now.presence_on_connect}
                  onChange={(event) => change("presence_on_connect", event.currentTarget.value)}>
                  {["available", "unavailable", "none"].map((word) => (
                    <option key={word} value={word}>
                      {word}
                    </option>
                  ))}
                </Field>
                <div class="pair">
                  {(["min", "max"] as const).map((end) => (
                    <Field key={end} label={label("send_delay_ms", `Pause between sends, ${end} ms`)} name={`send_delay_ms.${end}`} type="number" error={error}
                      value={now.send_delay_ms?.[end] ?? ""}
                      onInput={(event) => {
                        const typed = event.currentTarget.value;
                        // An end that is emptied to be typed anew leaves the other one as it is.
                        const before = now.send_delay_ms ?? { min: null, max: null };
                        const ends: Record<"min" | "max", number | null> = { ...before, [end]: typed === "" ? null : Number(typed) };
                        change("send_delay_ms", ends.min === null && ends.max === null ? null : ends);
                      }} />
                  ))}
                </div>
                {moved && <p class="stale">Somebody else changed these settings meanwhile. Reload them, then make your changes.</p>}
                <Failure error={error} {...(moved && { retry: () => { clear(); loaded.reload(); } })} />
                {may("write") && (
                  <div class="actions">
                    <button type="button" class="quiet" disabled={busy} onClick={() => setResets(true)}>
                      Reset to defaults
                    </button>
                    <button type="submit" disabled={busy || Object.keys(changes).length === 0}>
                      Save
                    </button>
                  </div>
                )}
              </fieldset>
            </form>
            {resets && (
              <Confirm title="Reset to defaults" about={<p>All settings of this channel go back to their defaults, including the proxy. The current values are not kept.</p>} action="Reset to defaults"
                command={asCurl("DELETE", path)} close={() => { setResets(false); loaded.reload(); }} work={() => act("DELETE", etag)} />
            )}
          </>
        );
      }}
    </Faces>
  );
}
