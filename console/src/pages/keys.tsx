import { useRef, useState } from "preact/hooks";
import { type Page, get, post, remove } from "../api";
import { Badge, Confirm, Dialog, Done, Faces, Failure, Field, FormEnd, Id, Pages, Secret, Table, Theirs, Time, Title, asUtc, param, plain, say, useAction, useLoad, usePages, useShown } from "../parts";
import { href, leave } from "../router";
import { may } from "../session";
import type { Channel, M } from "../types";

type Key = M["ApiKey"];

/** Channels to choose from. */
const CHANNELS = 100;

const RESOURCES = [
  "channels", "messages", "media", "chats", "contacts", "groups", "communities", "newsletters", "labels", "blacklist", "stories", "calls",
  "presences", "profile", "settings", "business", "webhooks", "keys", "events", "limits", "metrics",
];

function granted(scopes: string[]): string {
  if (scopes.length === 0 || scopes.includes("*")) return "everything";
  return scopes.map((scope) => scope.replace(/\.\*$/, " (read and change)").replace(/\.read$/, " (read)").replace(/\.write$/, " (change)")).join(", ");
}

export function Keys() {
  const revoked = param("revoked");
  const list = usePages<Key>((cursor, signal) => get("/v1/api-keys", { include_revoked: revoked ? true : undefined, cursor }, signal), [revoked]);
  const [gone, setGone] = useState<Key>();
  return (
    <>
      <Title
        extra={
          may("keys") && (
            <a class="button" href={href("keys", { create: "1" })}>
              Create a key
            </a>
          )
        }
      >
        API keys
      </Title>
      <p>
        <a href={href("keys", { revoked: revoked ? "" : "1" })}>{revoked ? "Hide revoked keys" : "Show revoked keys"}</a>
      </p>
      <Faces of={list} isEmpty={({ data }) => data.length === 0} empty={<p>An API key lets your programs call the API.</p>}>
        {({ data }) => (
          <>
            <Table
              name="API keys"
              rows={data}
              id={(row) => row.id}
              columns={[
                { head: "Name", cell: (row) => <Theirs text={row.name} /> },
                { head: "Prefix", cell: (row) => <code>{row.prefix}</code> },
                { head: "State", cell: (row) => <Badge status={row.status} /> },
                { head: "Scopes", cell: (row) => granted(row.scopes) },
                { head: "Channel", cell: (row) => (row.channel_id ? <Id id={row.channel_id} /> : "all") },
                { head: "Last used", cell: (row) => <Time at={row.last_used_at} /> },
                { head: "Expires", cell: (row) => <Time at={row.expires_at} /> },
                {
                  head: "",
                  cell: (row) =>
                    may("keys") && row.status === "active" ? (
                      <button type="button" class="danger" onClick={() => setGone(row)}>
                        Revoke
                      </button>
                    ) : null,
                },
              ]}
            />
            <Pages of={list} />
          </>
        )}
      </Faces>
      {gone && (
        <Confirm title="Revoke the key" about={<p>Programs that use <strong><Theirs text={gone.name} /></strong> are refused at once, on every node.</p>} action="Revoke"
          close={() => setGone(undefined)} work={() => remove(`/v1/api-keys/${gone.id}`).then(list.reload)} />
      )}
      {may("keys") && param("create") && <Create close={() => { leave(href("keys")); list.reload(); }} />}
    </>
  );
}

function Create({ close }: { close: () => void }) {
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState<string[]>([]);
  const [channel, setChannel] = useState("");
  const [ends, setEnds] = useState("");
  const [made, setMade] = useState<M["IssuedKey"]>();
  const { busy, error, run } = useAction();
  const isShown = useShown();
  const [find, setFind] = useState("");
  const channels = useLoad((signal) => get<Page<Channel>>("/v1/channels", { limit: CHANNELS, q: find.trim() }, signal), [find.trim()]);
  /** Once more of them are known than are listed, they are looked for. */
  const areMany = useRef(false);
  areMany.current ||= !!channels.data?.next_cursor;
  const toggle = (scope: string, on: boolean) => setScopes(on ? [...scopes, scope] : scopes.filter((other) => other !== scope));
  if (made) {
    return (
      <Dialog title="Your new key" close={close}>
        <Secret label={plain(made.name)} secret={made.secret} />
        <Done close={close} />
      </Dialog>
    );
  }
  return (
    <Dialog title="Create a key" close={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void run(async () => {
            const key = await post<M["IssuedKey"]>("/v1/api-keys", { name, scopes, ...(channel && { channel_id: channel }), ...(ends && { expires_at: asUtc(ends) }) });
            if (isShown()) setMade(key);
            else say(`${plain(key.name)} was created, but nobody has seen it: revoke it`);
          });
        }}
      >
        <Field label="Name" name="name" required maxLength={120} autofocus value={name} error={error} onInput={(event) => setName(event.currentTarget.value)} />
        {areMany.current && (
          <Field label="Find a channel" name="find" autocomplete="off" value={find} hint="By name or number. The newest hundred that match are listed below."
            onInput={(event) => { setFind(event.currentTarget.value); setChannel(""); }} />
        )}
        {/* Whoever looks for a channel wants no key to all of them. */}
        <Field label="Channel" name="channel_id" required={find !== ""} value={channel} error={error} onChange={(event) => setChannel(event.currentTarget.value)}>
          <option value="">{find === "" ? "all channels" : "choose one"}</option>
          {channels.data?.data.map((row) => (
            <option key={row.id} value={row.id}>
              {plain(row.name)}
            </option>
          ))}
        </Field>
        <Field label="Expires (UTC)" name="expires_at" type="datetime-local" value={ends} error={error} hint="Leave empty for a key that does not expire." onInput={(event) => setEnds(event.currentTarget.value)} />
        <fieldset>
          <legend>What it can do</legend>
          <p class="fine">{scopes.length === 0 ? "Nothing is selected, so it can do everything." : `It can use: ${granted(scopes)}.`}</p>
          <table class="scopes">
            <thead>
              <tr>
                <th scope="col">Resource</th>
                <th scope="col">read</th>
                <th scope="col">write</th>
              </tr>
            </thead>
            <tbody>
              {RESOURCES.map((resource) => (
                <tr key={resource}>
                  <th scope="row">{resource}</th>
                  {["read", "write"].map((access) => (
                    <td key={access}>
                      <input type="checkbox" aria-label={`${resource}.${access}`} checked={scopes.includes(`${resource}.${access}`)}
                        onChange={(event) => toggle(`${resource}.${access}`, event.currentTarget.checked)} />
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </fieldset>
        <Failure error={error} />
        <FormEnd close={close} label="Create" disabled={busy} />
      </form>
    </Dialog>
  );
}
