// Conversations of a channel: a list, the messages of one, and a box to write in.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Refused, call, get, post, seen, wait, type Page } from "../api";
import type { Event } from "../live";
import { Faces, Failure, Field, Pages, Theirs, Time, Word, announce, bytes, param, plain, say, tooLong, useAction, useLoad, usePages, useShown } from "../parts";
import { go, href } from "../router";
import { may } from "../session";
import type { Channel, M, Message } from "../types";
import { TICK } from "../words";

const CHATS = 100;
const MESSAGES = 50;
/** Rows of a conversation that are in the document at a time, and how far a step through those that were fetched leads. */
const MOST_ROWS = 200;
const STEP = 100;
/** Whoever turns the wheel so near to the first row, in pixels, is after older ones. */
const NEAR = 200;

const ULID = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/** A label of the console's own for a send, by which it is found again when no answer came. */
export function ulid(now = Date.now()): string {
  let time = "";
  for (let n = 0; n < 10; n++) {
    time = ULID[now % 32] + time;
    now = Math.floor(now / 32);
  }
  return time + [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => ULID[byte % 32]).join("");
}

/** A chat may be named by its number alone. */
const userOf = (address: string) => address.replace(/@.*/, "");

export function Chats({ channel }: { channel: Channel }) {
  const chat = param("chat");
  const of = (event: Event) => event.data.channel_id === channel.id && /^(message|chat)\./.test(event.name);
  const chats = usePages<M["Chat"]>(
    (cursor, signal) => get(`/v1/channels/${channel.id}/chats`, { limit: CHATS, cursor }, signal),
    [channel.id],
    { on: of, every: 5_000 },
  );
  const open = (id: string) => href("channel", { id: channel.id, tab: "chats", chat: id });
  return (
    <div class={chat ? "chats is-open" : "chats"}>
      <section class="chat-list" aria-label="Chats">
        {may("write") && <NewChat channel={channel} open={(id) => go(open(id))} />}
        <Faces
          of={chats}
          isEmpty={({ data }) => data.length === 0}
          empty={<p>No messages yet.{may("write") && " Enter a number above to write the first one."}</p>}
        >
          {({ data }) => (
            <ul>
              {data.map((row) => (
                <li key={row.id}>
                  <a href={open(row.id)} aria-current={userOf(row.id) === userOf(chat) ? "true" : undefined}>
                    <strong>
                      <Theirs text={userOf(row.id)} />
                    </strong>
                    {row.pinned && <span class="fine">pinned</span>}
                    {row.unread && <span class="unread">unread</span>}
                    <span class="fine">
                      <Time at={row.last_message_at === null ? null : row.last_message_at * 1000} />
                    </span>
                  </a>
                </li>
              ))}
            </ul>
          )}
        </Faces>
        <Pages of={chats} />
      </section>
      {chat ? <Conversation key={chat} channel={channel} chat={chat} /> : <p class="none chat-hint">Select a chat.</p>}
    </div>
  );
}

function NewChat({ channel, open }: { channel: Channel; open: (id: string) => void }) {
  const [number, setNumber] = useState("");
  return (
    <form
      class="new-chat"
      onSubmit={(event) => {
        event.preventDefault();
        const digits = number.includes("@") ? number : number.replace(/[^0-9]/g, "");
        if (digits) open(digits);
      }}
    >
      <Field label="Write to" name="to" inputMode="tel" placeholder="15551234567" autocomplete="off" required pattern=".*[0-9@].*" title="A number with its country code, such as 15551234567" value={number}
        onInput={(event) => setNumber(event.currentTarget.value)} />
      <button type="submit" class="quiet" disabled={channel.status === "disabled_by_admin"}>
        Open
      </button>
    </form>
  );
}

/** Whether an event is about a chat; one that names no address may be about any. */
export function inChat(message: Record<string, unknown>, chat: string): boolean {
  const user = userOf(chat);
  const addresses = ["chat_id", "to", "from", "from_phone"].map((name) => message[name]).filter((address) => typeof address === "string");
  return addresses.length === 0 || addresses.some((address) => userOf(address) === user);
}

/** What of a conversation was fetched, the oldest first, and how to go on further back. */
interface Kept {
  rows: Message[];
  cursor: string | null;
}

/** With a page of the newest rows, which replace what is known of them. Where it does not join what was fetched before, as after
 * a long sleep, that is forgotten: a conversation with a hole would read as another one. */
export function withNewest(kept: Kept, page: Page<Message>): Kept {
  const ids = new Set(page.data.map((row) => row.id));
  const others = kept.rows.filter((row) => !ids.has(row.id));
  const newest = page.data.slice().reverse();
  const joins = others.length < kept.rows.length;
  return joins ? { rows: [...others, ...newest], cursor: kept.cursor } : { rows: newest, cursor: page.next_cursor ?? null };
}

function Conversation({ channel, chat }: { channel: Channel; chat: string }) {
  const path = `/v1/channels/${channel.id}/messages`;
  const kept = useRef<Kept>({ rows: [], cursor: null });
  const [from, setFrom] = useState<number | null>(null);
  const [quoted, setQuoted] = useState<Message>();
  const fetching = useAction();
  const newest = useLoad(
    async (signal) => {
      const page = await get<Page<Message>>(path, { chat_id: chat, limit: MESSAGES, deliveries: "none" }, signal);
      kept.current = withNewest(kept.current, page);
      return page;
    },
    [channel.id, chat],
    {
      on: (event) => event.data.channel_id === channel.id && event.name.startsWith("message.") && inChat(event.data.data, chat),
      steady: 1_000,
      every: 5_000,
    },
  );
  const list = useRef<HTMLOListElement>(null);
  const below = useRef(true);
  const last = newest.data?.data[0]?.id;
  /** Who reads further up is left there. */
  const toEnd = () => {
    if (list.current && below.current) list.current.scrollTop = list.current.scrollHeight;
  };
  useEffect(toEnd, [last, newest.data]);
  /** The newest message when somebody listening was last told of one. */
  const told = useRef<string | null>(null);
  useEffect(() => {
    if (!newest.data) return;
    const row = newest.data.data[0];
    if (told.current !== null && row && row.id !== told.current && row.direction === "inbound") announce("A new message has arrived.");
    told.current = row?.id ?? "";
  }, [last, newest.data === undefined]);
  /** What the other side calls itself, where it has written lately. */
  const name = newest.data?.data.find((row) => row.direction === "inbound" && !row.is_group && row.push_name)?.push_name;
  const unread = newest.data?.data.some((row) => row.direction === "inbound");
  useEffect(() => {
    // Opening a chat reads it, as on a phone. That nothing was unread is no failure.
    if (unread && may("write") && channel.status === "connected" && !document.hidden) {
      void post(`/v1/channels/${channel.id}/chats/${encodeURIComponent(chat)}/read`).catch(() => undefined);
    }
  }, [last, unread]);

  const { rows: all, cursor } = kept.current;
  const newestAt = Math.max(0, all.length - MOST_ROWS);
  // Who reads far back keeps the place; else the newest are shown.
  const begin = Math.min(from ?? newestAt, newestAt);
  const rows = all.slice(begin, begin + MOST_ROWS);
  /** The row that was the first, and where it stood: there it stays when older ones come before it. */
  const place = useRef<{ row: Element; top: number } | undefined>(undefined);
  const hold = () => {
    const row = list.current?.querySelector("li:not(.older)");
    if (row) place.current = { row, top: row.getBoundingClientRect().top };
  };
  useLayoutEffect(() => {
    if (place.current && list.current) list.current.scrollTop += place.current.row.getBoundingClientRect().top - place.current.top;
    place.current = undefined;
  });
  const back = async (isHeld: boolean) => {
    if (begin > 0) {
      if (isHeld) hold();
      setFrom(Math.max(0, begin - STEP));
      return;
    }
    const page = await get<Page<Message>>(path, { chat_id: chat, limit: MESSAGES, cursor, deliveries: "none" });
    // What was known may have been forgotten meanwhile, and these rows with it.
    if (kept.current.cursor !== cursor) return;
    if (isHeld) hold();
    kept.current = { rows: [...page.data.slice().reverse(), ...kept.current.rows], cursor: page.next_cursor ?? null };
    setFrom(kept.current.rows.length > MOST_ROWS ? 0 : null);
  };
  const backByWheel = () => {
    if ((cursor || begin > 0) && !fetching.error && list.current && list.current.scrollTop < NEAR) void fetching.run(() => back(true));
  };
  /** Whoever has sent something sees it. */
  const sent = () => {
    setFrom(null);
    below.current = true;
    newest.reload();
  };
  const forth = () => setFrom(begin + STEP < newestAt ? begin + STEP : null);
  return (
    <section class="conversation" aria-label={`Chat with ${plain(chat)}`}>
      <header>
        <a class="back" href={href("channel", { id: channel.id, tab: "chats" })}>
          ‹ Chats
        </a>
        <h2>
          <Theirs text={userOf(chat)} />
        </h2>
        <span class="fine named">
          <Theirs text={name} />
        </span>
        <span class="space" />
        {may("write") && (
          <button type="button" class="quiet" onClick={() => document.getElementById("message")?.focus()}>
            Write
          </button>
        )}
      </header>
      <Faces of={newest}>
        {() => (
          <ol
            ref={list}
            class="messages"
            tabIndex={0}
            aria-label="Messages, the newest last"
            // Pictures take their room when they have come.
            onLoadCapture={toEnd}
            onWheel={(event) => event.deltaY < 0 && backByWheel()}
            onTouchMove={backByWheel}
            onScroll={(event) => {
              const at = event.currentTarget;
              below.current = at.scrollHeight - at.scrollTop - at.clientHeight < 40;
            }}
          >
            {(cursor || begin > 0) && (
              <li class="older">
                <button type="button" class="quiet" disabled={fetching.busy} onClick={() => void fetching.run(() => back(false))}>
                  Show older messages
                </button>
                <Failure error={fetching.error} />
              </li>
            )}
            {rows.map((row) => (
              <Bubble key={row.id} row={row} rows={all} channel={channel} quote={() => { setQuoted(row); document.getElementById("message")?.focus(); }} />
            ))}
            {begin < newestAt && (
              <li class="older">
                <button type="button" class="quiet" onClick={forth}>
                  Show newer messages
                </button>
              </li>
            )}
          </ol>
        )}
      </Faces>
      {may("write") && (
        <Writer channel={channel} chat={chat} quoted={quoted} quote={setQuoted} sent={sent} />
      )}
    </section>
  );
}

/** `quiet` where its sentence stands elsewhere: a conversation has many. */
export function Tick({ row, quiet }: { row: Message; quiet?: boolean }) {
  const [sign, about] = TICK[row.status] ?? ["", row.status];
  if (row.direction === "inbound") return null;
  return (
    <Word class={`ticks is-${row.status}`} about={quiet ? "" : about}>
      <span aria-hidden="true">{sign}</span> <span>{row.status}</span>
    </Word>
  );
}

const EMOJI = ["👍", "❤️", "😂", "🙏"];

function Bubble({ row, rows, channel, quote }: { row: Message; rows: Message[]; channel: Channel; quote: () => void }) {
  const mine = row.direction === "outbound";
  const reaction = useAction();
  const answered = row.quoted_message_id && rows.find((other) => other.message_id === row.quoted_message_id);
  const react = (emoji: string) =>
    reaction.run(() =>
      post(`/v1/channels/${channel.id}/messages`, {
        type: "reaction",
        emoji,
        message_key: { id: row.message_id, from_me: mine, remote_jid: row.chat_id },
        client_ref: ulid(),
      }),
    );
  if (row.type === "reaction") {
    return (
      <li class={mine ? "note is-mine" : "note"}>
        {mine ? "You" : <Theirs text={row.push_name ?? userOf(row.from)} />} {row.emoji ? <>reacted <Theirs text={row.emoji} /></> : "removed a reaction"}
      </li>
    );
  }
  return (
    <li class={mine ? "bubble is-mine" : "bubble"}>
      {!mine && row.is_group && (
        <strong class="fine">
          <Theirs text={row.push_name ?? row.participant} />
        </strong>
      )}
      {row.quoted_message_id && <blockquote>{answered ? <Theirs text={answered.text ?? answered.type} /> : "an earlier message"}</blockquote>}
      {row.media && <Media media={row.media} type={row.type} />}
      {row.text !== null ? (
        <p class="text">
          <Theirs text={row.text} />
        </p>
      ) : (
        !row.media && <p class="none">{row.type}</p>
      )}
      <p class="fine">
        <Time at={row.occurred_at} /> <Tick row={row} quiet />
        {row.error && (
          <span class="bad">
            {" "}
            {row.error.message} (<code>{row.error.code}</code>)
          </span>
        )}
      </p>
      {(mine || may("write")) && (
        // One stop of the Tab key for each message, and not six.
        <details class="tools">
          <summary class="fine">{may("write") ? "Reply or react" : "What the status means"}</summary>
          {mine && <p class="fine">{TICK[row.status]?.[1]}</p>}
          {may("write") && (
            <div>
              <button type="button" class="quiet" onClick={quote}>
                Reply
              </button>
              {EMOJI.map((emoji) => (
                <button key={emoji} type="button" class="quiet" aria-label={`React with ${emoji}`} disabled={reaction.busy} onClick={() => void react(emoji)}>
                  {emoji}
                </button>
              ))}
            </div>
          )}
        </details>
      )}
      <Failure error={reaction.error} />
    </li>
  );
}

export function Media({ media, type }: { media: NonNullable<Message["media"]>; type: string }) {
  const about = `${media.mime_type}, ${bytes(media.size_bytes)}`;
  // Each answer has another link to the same bytes: what is drawn, or played, keeps its own for as long as that is good.
  const [link, setLink] = useState(media.url);
  const renew = () => setLink(media.url);
  useEffect(renew, [media.id, media.state]);
  if (!media.url) return <p class="none">{type}: {about} ({media.state})</p>;
  const shown = { src: link ?? media.url, onError: renew };
  if (type === "image" || type === "sticker") return <img class="media" {...shown} alt={`${type}, ${about}`} loading="lazy" />;
  if (type === "video") return <video class="media" {...shown} controls preload="none" aria-label={about} />;
  if (type === "audio" || type === "voice") return <audio {...shown} controls preload="none" aria-label={about} />;
  return (
    <p>
      <a href={media.url} download={media.filename ?? "document"} rel="noreferrer">
        <Theirs text={media.filename ?? "document"} />
      </a>{" "}
      <span class="fine">{about}</span>
    </p>
  );
}

function typeOf(mime: string): string {
  const kind = mime.split("/")[0] ?? "";
  return ["image", "video", "audio"].includes(kind) ? kind : "document";
}

/** The longest texts that the gateway takes. */
const TEXT = 4_096;
const CAPTION = 1_024;

/** After so long a send without an answer is not worked on any more: the node takes 30 s for its longest call. */
const SETTLED_MS = 35_000;
/** Between two looks for a send without an answer; each pause is twice the one before. */
const LOOK_MS = 1_000;
const LONGEST_LOOK_MS = 15_000;

/** A send that was begun. Until it is known what became of it, it bears one label, by which it is found in the history. */
interface Outgoing {
  ref: string;
  text: string;
  file: File | undefined;
  quoted: Message | undefined;
  was: "sending" | "looking" | "sent" | "not taken" | "refused";
  error?: Refused | undefined;
}

const FATE: Record<Outgoing["was"], string> = {
  sending: "",
  looking: "No answer arrived, so it is not clear yet whether the message was sent. Checking.",
  sent: "No answer arrived, but the message was sent.",
  "not taken": "No answer arrived, and the message was not sent. Send it again if you still want to.",
  refused: "The message was refused.",
};

/** A send is never repeated by itself: where no answer came, its own label is looked for in the history. */
function Writer({ channel, chat, quoted, quote, sent }: { channel: Channel; chat: string; quoted: Message | undefined; quote: (message: Message | undefined) => void; sent: () => void }) {
  const [text, setText] = useState("");
  const [file, setFile] = useState<File>();
  const [error, setError] = useState<Refused>();
  const [outgoing, setOutgoing] = useState<Outgoing[]>([]);
  const input = useRef<HTMLInputElement>(null);
  const area = useRef<HTMLTextAreaElement>(null);
  const isWriting = useRef(false);
  isWriting.current = text !== "" || file !== undefined;
  /** One send after the other, in the order in which they were written. */
  const turn = useRef(Promise.resolve());
  const isShown = useShown();
  const path = `/v1/channels/${channel.id}/messages`;
  const wrong = tooLong(text, file ? CAPTION : TEXT);
  const isEmpty = !file && text.trim() === "";

  const change = (one: Outgoing, now: Partial<Outgoing>) => setOutgoing((all) => all.map((other) => (other.ref === one.ref ? { ...other, ...now } : other)));
  const drop = (one: Outgoing) => setOutgoing((all) => all.filter((other) => other.ref !== one.ref));
  const put = (what: Pick<Outgoing, "text" | "file" | "quoted">) => {
    setText(what.text);
    setFile(what.file);
    quote(what.quoted);
    const files = new DataTransfer();
    if (what.file) files.items.add(what.file);
    if (input.current) input.current.files = files.files;
  };

  const find = async (one: Outgoing) => {
    const { data } = await get<Page<Message>>(path, { client_ref: one.ref, limit: 1, deliveries: "none" });
    if (data.length === 0) return false;
    change(one, { was: "sent" });
    announce("The message was sent.");
    sent();
    return true;
  };
  /** Says that a send was not taken only where the history was read after its end. */
  const look = async (one: Outgoing) => {
    change(one, { was: "looking" });
    const began = Date.now();
    for (let pause = LOOK_MS; isShown(); pause = Math.min(2 * pause, LONGEST_LOOK_MS)) {
      await seen();
      const isOver = Date.now() - began > SETTLED_MS;
      const found = await find(one).catch(() => undefined);
      if (found) return;
      if (found === false && isOver) return change(one, { was: "not taken" });
      await wait(pause);
    }
  };
  const bodyOf = async (one: Outgoing) => {
    const body: Record<string, unknown> = { to: chat, client_ref: one.ref };
    const about = one.quoted;
    if (about) {
      body["quoted"] = { id: about.message_id, from_me: about.direction === "outbound", remote_jid: about.chat_id, ...(about.participant && { participant: about.participant }) };
    }
    if (!one.file) return { ...body, type: "text", text: one.text };
    const form = new FormData();
    form.append("file", one.file);
    const media = await call<M["MediaUpload"]>("POST", `/v1/channels/${channel.id}/media`, { body: form });
    const type = typeOf(media.mime_type);
    return {
      ...body,
      type,
      media_url: media.url,
      mime_type: media.mime_type,
      ...(type === "document" && { filename: one.file.name }),
      ...(one.text && type !== "audio" && { caption: one.text }),
    };
  };
  const deliver = async (one: Outgoing) => {
    let isAsked = false;
    try {
      const body = await bodyOf(one);
      isAsked = true;
      const { status } = await post<M["SentMessage"]>(path, body);
      announce(status === "queued" ? "The message is queued." : "The message was sent.");
      drop(one);
      sent();
    } catch (thrown) {
      const refused = thrown instanceof Refused ? thrown : new Refused(0, "console", String(thrown), null, null, 0);
      // Another page is shown by now, on which nothing of this one can stand.
      if (!isShown()) return say(`A message to ${plain(userOf(chat))} ${isAsked && refused.uncertain ? "got no answer: check whether it was sent" : "was not sent"}.`);
      // Looked for while what was written next is sent.
      if (isAsked && refused.uncertain) void look(one);
      // What was written comes back, unless something else is being written.
      else if (isWriting.current) change(one, { was: "refused", error: refused });
      else {
        drop(one);
        put(one);
        setError(refused);
      }
    }
  };
  const queue = (work: () => Promise<void>) => (turn.current = turn.current.then(work));
  const send = () => {
    if (isEmpty || wrong) return;
    const one: Outgoing = { ref: ulid(), text, file, quoted, was: "sending" };
    setOutgoing((all) => [...all.filter((other) => other.was !== "sent"), one]);
    setError(undefined);
    put({ text: "", file: undefined, quoted: undefined });
    area.current?.focus();
    void queue(() => deliver(one));
  };
  /** Under the same label: it may have been taken late, and is not sent then. */
  const again = (one: Outgoing) => {
    change(one, { was: "sending", error: undefined });
    void queue(async () => {
      const found = one.was === "not taken" ? await find(one).catch(() => undefined) : false;
      if (found === undefined) void look(one);
      else if (!found) await deliver(one);
    });
  };
  return (
    <form
      class="writer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      {channel.status !== "connected" && <p class="stale">The channel is {channel.status}.</p>}
      {quoted && (
        <blockquote>
          <Theirs text={quoted.text ?? quoted.type} />{" "}
          <button type="button" class="quiet" onClick={() => quote(undefined)} aria-label="Remove the quote">
            ✕
          </button>
        </blockquote>
      )}
      {outgoing.some((one) => one.was === "sending") && <p class="fine sending">Sending</p>}
      {outgoing
        .filter((one) => one.was !== "sending")
        .map((one) => (
          <div key={one.ref} class={one.was === "not taken" || one.was === "refused" ? "failure" : "stale"}>
            <p class="fine cut">
              <Theirs text={one.text || one.file?.name} />
            </p>
            <p role="status">{FATE[one.was]}</p>
            <Failure error={one.error} />
            {(one.was === "not taken" || one.was === "refused") && (
              <p>
                <button type="button" class="quiet" onClick={() => again(one)}>
                  Send it again
                </button>{" "}
                <button type="button" class="quiet" onClick={() => drop(one)}>
                  Discard it
                </button>
              </p>
            )}
          </div>
        ))}
      <Failure error={error} />
      <label class="hidden" for="message">
        Message
      </label>
      <textarea
        ref={area}
        id="message"
        rows={2}
        placeholder="Message"
        dir="auto"
        value={text}
        aria-describedby="message-about"
        onInput={(event) => {
          setText(event.currentTarget.value);
          setError(undefined);
        }}
        onKeyDown={(event) => {
          if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
            event.preventDefault();
            event.currentTarget.form?.requestSubmit();
          }
        }}
      />
      <p id="message-about" class="bad" role="status">
        {wrong}
      </p>
      <div class="actions">
        <label class="attach">
          <span class="hidden">File</span>
          <input ref={input} type="file" onChange={(event) => setFile(event.currentTarget.files?.[0])} />
        </label>
        <button type="submit" disabled={isEmpty || wrong !== ""}>
          Send
        </button>
      </div>
    </form>
  );
}
