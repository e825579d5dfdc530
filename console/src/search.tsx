// Ctrl-K: finds a page, a channel by its name or number, and whatever an id names.
import { useEffect, useRef, useState } from "preact/hooks";
import { type Page, Refused, door, get } from "./api";
import { Dialog, Failure, Theirs } from "./parts";
import { go, href } from "./router";
import type { Channel, M, Message, O } from "./types";

interface Hit {
  kind: string;
  label: string;
  to: string;
}

const UUID = /^[0-9a-f]{8}-[0-9a-f-]{27}$/i;
/** How long to wait before a search that found nothing, or was refused, is made again. */
const AGAIN_MS = [500, 1_000, 2_000];

/** What an id names, if it names anything: that it does not is no failure. */
async function named<T>(path: string, hit: (found: T) => Hit, signal: AbortSignal): Promise<Hit[]> {
  try {
    return [hit(await get<T>(path, {}, signal))];
  } catch (error) {
    if (error instanceof Refused && error.status === 404) return [];
    throw error;
  }
}

async function ofMember(text: string, signal: AbortSignal): Promise<Hit[]> {
  const channel = (row: Channel): Hit => ({ kind: "channel", label: `${row.name}${row.phone_number ? ` +${row.phone_number}` : ""}`, to: href("channel", { id: row.id }) });
  if (UUID.test(text)) {
    const found = await Promise.all([
      named<Channel>(`/v1/channels/${text}`, channel, signal),
      named<M["WebhookEndpoint"]>(`/v1/webhook-endpoints/${text}`, (row) => ({ kind: "webhook", label: row.url, to: href("webhooks", { id: row.id }) }), signal),
      named<M["WebhookDeliveryDetail"]>(`/v1/webhook-deliveries/${text}`, (row) => ({ kind: "delivery", label: row.event, to: href("deliveries", { id: row.id }) }), signal),
    ]);
    return found.flat();
  }
  const [channels, messages] = await Promise.all([
    get<Page<Channel>>("/v1/channels", { q: text, limit: 20 }, signal),
    text.length >= 10 && !text.includes(" ") ? get<Page<Message>>("/v1/messages", { message_id: text, limit: 5, deliveries: "none" }, signal) : undefined,
  ]);
  return [
    ...channels.data.map(channel),
    ...(messages?.data ?? []).map((row) => ({ kind: "message", label: `${row.type} with ${row.chat_id.replace(/@.*/, "")}`, to: href("channel", { id: row.channel_id, tab: "messages", message_id: row.message_id }) })),
  ];
}

async function ofOperator(text: string, signal: AbortSignal): Promise<Hit[]> {
  const trace: Hit[] = text.length >= 10 && !text.includes(" ") ? [{ kind: "trace", label: `the message ${text}`, to: href("trace", { id: text }) }] : [];
  if (!UUID.test(text)) return trace;
  return [
    ...(await named<O["Customer"]>(`/v1/admin/customers/${text}`, (row) => ({ kind: "customer", label: row.name, to: href("customers", { id: row.id }) }), signal)),
    ...trace,
  ];
}

export function Search({ pages, close }: { pages: [string, string][]; close: () => void }) {
  const [text, setText] = useState("");
  const [found, setFound] = useState<Hit[]>([]);
  const [looking, setLooking] = useState(false);
  const [asked, setAsked] = useState(0);
  const list = useRef<HTMLUListElement>(null);
  const [failed, setFailed] = useState<Refused>();
  const word = text.trim().toLowerCase();
  useEffect(() => {
    setFound([]);
    setFailed(undefined);
    setLooking(word.length >= 2);
    if (word.length < 2) return;
    const stop = new AbortController();
    let due: ReturnType<typeof setTimeout>;
    // What is typed may be there in a moment: a list of another node, or a refusal that passes.
    const look = async (again: number[]) => {
      let hits: Hit[] = [];
      let refused: Refused | undefined;
      try {
        hits = await (door === "members" ? ofMember : ofOperator)(text.trim(), stop.signal);
      } catch (error) {
        refused = error instanceof Refused ? error : new Refused(0, "console", String(error), null, null, 0);
      }
      if (stop.signal.aborted) return;
      setFound(hits);
      const [pause, ...later] = again;
      const isOver = hits.length > 0 || pause === undefined;
      setFailed(isOver ? refused : undefined);
      setLooking(!isOver);
      if (!isOver) due = setTimeout(() => void look(later), Math.max(pause, (refused?.retryAfter ?? 0) * 1000));
    };
    due = setTimeout(() => void look(AGAIN_MS), 250);
    return () => {
      stop.abort();
      clearTimeout(due);
    };
  }, [word, asked]);
  const hits = [...pages.filter(([, label]) => word !== "" && label.toLowerCase().includes(word)).map(([page, label]) => ({ kind: "page", label, to: href(page) })), ...found];
  const open = (to: string) => {
    close();
    go(to);
  };
  return (
    <Dialog title="Find" close={close}>
      <form
        role="search"
        onSubmit={(event) => {
          event.preventDefault();
          if (hits[0]) open(hits[0].to);
          else setAsked(asked + 1);
        }}
      >
        <label class="hidden" for="find">
          What to find
        </label>
        <input id="find" type="search" autofocus autocomplete="off" placeholder={door === "members" ? "A page, a channel's name or number, or any id" : "A page, a customer's id, or a message's id"} value={text}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key !== "ArrowDown") return;
            event.preventDefault();
            list.current?.querySelector("a")?.focus();
          }} />
      </form>
      <ul class="hits" ref={list}
        onKeyDown={(event) => {
          const links = [...(list.current?.querySelectorAll("a") ?? [])];
          const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
          if (step === 0) return;
          event.preventDefault();
          links[links.indexOf(document.activeElement as HTMLAnchorElement) + step]?.focus();
        }}>
        {hits.map((hit) => (
          <li key={hit.kind + hit.to}>
            <a
              href={hit.to}
              onClick={(event) => {
                event.preventDefault();
                open(hit.to);
              }}
            >
              <span class="kind">{hit.kind}</span> <Theirs text={hit.label} />
            </a>
          </li>
        ))}
      </ul>
      <p class="fine" role="status">
        {hits.length === 0 && looking ? "Searching" : failed ? "" : word.length < 2 ? "Type at least two letters" : hits.length === 0 ? "Nothing found. Press Enter to search again." : `${hits.length} found. Press Enter to open the first`}
      </p>
      {failed && <Failure error={failed} retry={() => setAsked(asked + 1)} />}
    </Dialog>
  );
}
