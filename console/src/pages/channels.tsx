import { useEffect, useState } from "preact/hooks";
import { get, post } from "../api";
import { Dialog, Faces, Failure, Field, FormEnd, Id, NOTHING_YET, Pages, Secret, Standing, Table, Theirs, Time, Title, isNothing, param, plain, say, useAction, usePages, useShown } from "../parts";
import { go, href, leave } from "../router";
import { may } from "../session";
import type { Channel, M } from "../types";
import { STATUS } from "../words";

const PAGE = 100;

export function Channels() {
  const status = param("status");
  const name = param("name");
  const [typed, setTyped] = useState(name);
  // By the back button and by "Show all", too, the field says what the list is filtered by.
  useEffect(() => setTyped(name), [name]);
  const list = usePages<Channel>((cursor, signal) => get("/v1/channels", { limit: PAGE, status, q: name, reasons: true, cursor }, signal), [status, name], {
    on: (event) => event.name === "channel.status",
    every: 5_000,
  });
  return (
    <>
      <Title
        extra={
          may("write") && (
            <a class="button" href={href("channels", { create: "1" })}>
              Create a channel
            </a>
          )
        }
      >
        Channels
      </Title>
      <form
        class="filters"
        role="search"
        onSubmit={(event) => {
          event.preventDefault();
          go(href("channels", { status, name: typed }));
        }}
      >
        <Field label="Status" name="status" value={status}
          onChange={(event) => go(href("channels", { status: event.currentTarget.value, name }))}>
          <option value="">all</option>
          {Object.keys(STATUS).map((word) => (
            <option key={word} value={word}>
              {word}
            </option>
          ))}
        </Field>
        <Field label="Name or number" name="name" value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
        <button type="submit" class="quiet">
          Find
        </button>
      </form>
      <Faces
        of={list}
        isEmpty={isNothing}
        empty={
          status || name ? (
            <p>No channels match. <a href={href("channels")}>Show all</a></p>
          ) : (
            <>
              <p>A channel is one phone number, linked by scanning a code.</p>
              {may("write") && (
                <p>
                  <a class="button" href={href("channels", { create: "1" })}>
                    Create the first channel
                  </a>
                </p>
              )}
            </>
          )
        }
      >
        {({ data }) => (
          <>
            <Table
              name="Channels"
              rows={data}
              id={(row) => row.id}
              columns={[
                { head: "Name", cell: (row) => <a href={href("channel", { id: row.id })}><Theirs text={row.name} /></a> },
                { head: "Number", cell: (row) => row.phone_number ?? <span class="none">–</span> },
                { head: "Status", cell: (row) => <Standing channel={row} /> },
                { head: "Last seen", cell: (row) => <Time at={row.last_seen_at} /> },
                { head: "Created", cell: (row) => <Time at={row.created_at} /> },
                { head: "Id", cell: (row) => <Id id={row.id} /> },
              ]}
            />
            {data.length === 0 && <p role="status">{NOTHING_YET}</p>}
            <Pages of={list} />
          </>
        )}
      </Faces>
      {may("write") && param("create") && <Create />}
    </>
  );
}

function Create() {
  const [name, setName] = useState("");
  const [withKey, setWithKey] = useState(false);
  const [created, setCreated] = useState<M["CreatedChannel"]>();
  const { busy, error, run } = useAction();
  const isShown = useShown();
  const close = () => leave(href("channels"));
  const pairing = (id: string) => href("channel", { id, tab: "pairing" });
  const submit = async () => {
    const channel = await post<M["CreatedChannel"]>("/v1/channels", { name, ...(withKey && { issue_scoped_key: true }) });
    if (!isShown()) say(`${plain(channel.name)} was created${channel.scoped_key ? ", but nobody has seen its key" : ""}`);
    else if (channel.scoped_key) setCreated(channel);
    else go(pairing(channel.id), true);
  };
  return (
    <Dialog title="Create a channel" close={close}>
      {created?.scoped_key ? (
        <>
          <Secret label="The key of this channel" secret={created.scoped_key.secret} />
          <div class="actions">
            <button type="button" onClick={() => go(pairing(created.id), true)}>
              Pair it
            </button>
          </div>
        </>
      ) : (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            void run(submit);
          }}
        >
          <Field label="Name" name="name" required maxLength={120} autofocus value={name} error={error} hint="Only members of your account see it. For example Sales."
            onInput={(event) => setName(event.currentTarget.value)} />
          {may("keys") && (
            <label class="check">
              <input type="checkbox" checked={withKey} onChange={(event) => setWithKey(event.currentTarget.checked)} /> Also create an
              API key for it
            </label>
          )}
          <Failure error={error} />
          <FormEnd close={close} label="Create" disabled={busy} />
        </form>
      )}
    </Dialog>
  );
}
