import { useEffect, useRef, useState } from "preact/hooks";
import { nodeTime } from "../api";
import { type Event, onEvent, state } from "../live";
import { Dialog, Field, Id, Table, Time, Title, now, plain } from "../parts";
import { href } from "../router";
import { may } from "../session";
import { EVENT } from "../words";

/** Events that are kept; the oldest go first. */
const KEPT = 1_000;
const SHOWN = 200;
/** The rate is that of so long. */
const RATE_MS = 5_000;

export function Events() {
  const [, draw] = useState(0);
  const [paused, setPaused] = useState(false);
  const [name, setName] = useState("");
  const [channel, setChannel] = useState("");
  const [open, setOpen] = useState<Event>();
  const kept = useRef<Event[]>([]);
  /** When the events of the last seconds came, the oldest first. */
  const times = useRef<number[]>([]);
  const stopped = useRef(false);
  stopped.current = paused;
  useEffect(() => {
    let due = 0;
    const stop = onEvent((event) => {
      const at = nodeTime();
      times.current.push(at);
      while (times.current[0]! <= at - RATE_MS) times.current.shift();
      if (stopped.current) return;
      kept.current.unshift(event);
      kept.current.length = Math.min(kept.current.length, KEPT);
      // However many come, they are drawn once a frame.
      due ||= requestAnimationFrame(() => {
        due = 0;
        draw((drawn) => drawn + 1);
      });
    });
    return () => {
      stop();
      cancelAnimationFrame(due);
    };
  }, []);
  const fitting = kept.current.filter((event) => (!name || event.name === name) && (!channel || event.data.channel_id === channel));
  const rate = times.current.filter((at) => at > now() - RATE_MS).length / (RATE_MS / 1_000);
  return (
    <>
      <Title
        extra={
          <>
            <span class="fine">{rate.toFixed(1)} a second</span>
            <button type="button" class="quiet" aria-pressed={paused} onClick={() => setPaused(!paused)}>
              {paused ? "Resume" : "Pause"}
            </button>
          </>
        }
      >
        Events
      </Title>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <Field label="Event" name="event" value={name} onChange={(event) => setName(event.currentTarget.value)}>
          <option value="">all</option>
          {Object.keys(EVENT).map((word) => (
            <option key={word} value={word}>
              {word}
            </option>
          ))}
        </Field>
        <Field label="Channel id" name="channel" value={channel} onInput={(event) => setChannel(event.currentTarget.value.trim())} />
        {may("write") && (
          <a class="button is-quiet" href={href("webhooks", { create: "1", events: name || "*", channel })}>
            Create an endpoint from this filter
          </a>
        )}
      </form>
      {fitting.length === 0 ? (
        <div class="empty">
          <p>{state.value === "on" ? "Events appear here as they happen." : "Live updates are off."}</p>
        </div>
      ) : (
        <Table
          name="Events, the newest first"
          stay
          rows={fitting.slice(0, SHOWN)}
          id={(row) => row.id}
          columns={[
            { head: "Time", cell: (row) => <Time at={row.data.occurred_at} /> },
            { head: "Event", cell: (row) => <button type="button" class="link" onClick={() => setOpen(row)}>{row.name}</button> },
            { head: "Channel", cell: (row) => <Id id={row.data.channel_id} /> },
            { head: "Data", cell: (row) => <code class="cut">{plain(JSON.stringify(row.data.data)).slice(0, 120)}</code> },
          ]}
        />
      )}
      {open && (
        <Dialog title={open.name} close={() => setOpen(undefined)}>
          <p class="fine">{EVENT[open.name]}</p>
          <pre tabIndex={0}>{plain(JSON.stringify(open.data, null, 2))}</pre>
        </Dialog>
      )}
    </>
  );
}
