// Events as they come: one tab of the browser reads the stream and shares it with the others.
import { signal } from "@preact/signals";
import { Refused, door, open } from "./api";
import { who } from "./session";
import { alone, listen, tell } from "./tabs";

export type State = "off" | "connecting" | "on" | "full";

export const state = signal<State>("off");
/** Grows when events may have been missed: pages load again what they show. */
export const reloads = signal(0);

export interface Event {
  id: string;
  name: string;
  /** The envelope, as webhooks get it. */
  data: { event: string; event_id: string; channel_id: string; occurred_at: string; data: Record<string, any> };
}

type Listener = (event: Event) => void;
const listeners = new Set<Listener>();

export function onEvent(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** A hidden tab gives the stream to another one after this long. */
const HIDDEN_MS = 60_000;
const RETRY_MS = 1_000;
const FULL_RETRY_MS = 15_000;

let last = "";
/** Whether this tab reads the stream, or tries to. */
let leading = false;

/** Events that were shown: another node, or another tab that reads on, may tell of the last of them once more. */
const SEEN = 2_000;
const seen = new Set<string>();

function show(event: Event): void {
  last = event.id;
  const { event_id } = event.data;
  if (seen.has(event_id)) return;
  seen.add(event_id);
  if (seen.size > SEEN) seen.delete(seen.values().next().value!);
  listeners.forEach((listener) => listener(event));
}

function became(next: State, lost: boolean): void {
  state.value = next;
  if (lost) reloads.value++;
  tell({ kind: "stream", state: next, lost });
}

/** Frames of a stream of server-sent events, as they come whole. */
export async function* frames(body: ReadableStream<Uint8Array>): AsyncGenerator<{ id: string; name: string; data: string }> {
  const reader = body.pipeThrough(new TextDecoderStream() as unknown as TransformStream<Uint8Array, string>).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += value;
    for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
      const frame = { id: "", name: "", data: "" };
      for (const line of rest.slice(0, end).split("\n")) {
        if (line.startsWith("id: ")) frame.id = line.slice(4);
        else if (line.startsWith("event: ")) frame.name = line.slice(7);
        else if (line.startsWith("data: ")) frame.data += line.slice(6);
      }
      rest = rest.slice(end + 2);
      yield frame;
    }
  }
}

async function read(stop: AbortSignal): Promise<void> {
  became("connecting", false);
  const headers: Record<string, string> = { accept: "text/event-stream" };
  const resumed = last !== "";
  if (resumed) headers["last-event-id"] = last;
  const response = await open("GET", "/v1/events", { headers, signal: stop });
  // Without an event to go on after, whatever happened since the page was loaded may be missing.
  became("on", !resumed);
  if (!response.body) return;
  for await (const frame of frames(response.body)) {
    if (frame.name === "stream.gap" || frame.name === "stream.overflow") became("on", true);
    if (frame.id === "") continue;
    const event: Event = { id: frame.id, name: frame.name, data: JSON.parse(frame.data) };
    show(event);
    tell({ kind: "event", ...event });
  }
}

const wait = (ms: number, stop: AbortSignal) =>
  new Promise<void>((done) => {
    const timer = setTimeout(done, ms);
    stop.addEventListener("abort", () => {
      clearTimeout(timer);
      done();
    });
  });

async function lead(stop: AbortSignal): Promise<void> {
  leading = true;
  while (!stop.aborted && who.value) {
    let pause = RETRY_MS;
    try {
      await read(stop);
    } catch (error) {
      if (stop.aborted) break;
      const full = error instanceof Refused && error.code === "sse_connection_limit";
      if (full) {
        pause = FULL_RETRY_MS;
        became("full", false);
      }
    }
    if (stop.aborted) break;
    if (state.value !== "full") became("connecting", false);
    await wait(pause, stop);
  }
  leading = false;
  became("off", false);
}

/** Keeps a stream for as long as this tab is seen, or lets another tab keep it. */
export function begin(): void {
  if (door === "operators") return;
  let stop: AbortController | null = null;
  let hidden: ReturnType<typeof setTimeout> | undefined;
  const start = () => {
    clearTimeout(hidden);
    if (stop || document.hidden || !who.value) return;
    const mine = new AbortController();
    stop = mine;
    // Another tab may read already; it says how that is.
    tell({ kind: "want-stream" });
    void alone("stream", () => lead(mine.signal), mine.signal)
      .catch(() => undefined)
      .finally(() => {
        if (stop === mine) stop = null;
      });
  };
  const end = () => {
    stop?.abort();
    stop = null;
  };
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hidden);
    if (document.hidden) hidden = setTimeout(end, HIDDEN_MS);
    else start();
  });
  who.subscribe((known) => (known ? start() : end()));
  listen((message) => {
    if (message.kind === "event") show({ id: message.id, name: message.name, data: message.data as Event["data"] });
    if (message.kind === "want-stream" && leading) tell({ kind: "stream", state: state.value, lost: false });
    if (message.kind === "stream") {
      state.value = message.state as State;
      if (message.lost) reloads.value++;
    }
  });
}
