// Events as they come: one tab of the browser reads the stream and shares it with the others.
import { effect, signal } from "@preact/signals";
import { Refused, door, open } from "./api";
import { ended, who } from "./session";
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
/** The gateway says something every 15 s; after three of them the connection is dead. */
const SILENCE_MS = 45_000;
/** A page that is opened waits so long at most for the stream, and then loads without it. */
const OPENING_MS = 150;

let open_: () => void = () => undefined;
/** The first stream is open, or is long in coming. What is loaded after it is opened need not be loaded again for what was missed. */
export const opened = new Promise<void>((done) => (open_ = done));

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

function showState(next: State, lost: boolean): void {
  state.value = next;
  if (lost) reloads.value++;
  if (next !== "connecting") open_();
}

function became(next: State, lost: boolean): void {
  showState(next, lost);
  tell({ kind: "stream", state: next, lost });
}

/** Frames of a stream of server-sent events, as they come whole, until it ends, falls silent or is stopped. */
export async function* frames(body: ReadableStream<Uint8Array>, stop: AbortSignal): AsyncGenerator<{ id: string; name: string; data: string }> {
  const reader = body.pipeThrough(new TextDecoderStream() as unknown as TransformStream<Uint8Array, string>).getReader();
  const quit = () => void reader.cancel().catch(() => undefined);
  stop.addEventListener("abort", quit);
  if (stop.aborted) quit();
  let rest = "";
  let silence: ReturnType<typeof setTimeout> | undefined;
  try {
    for (;;) {
      silence = setTimeout(quit, SILENCE_MS);
      const { done, value } = await reader.read();
      clearTimeout(silence);
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
  } finally {
    clearTimeout(silence);
    stop.removeEventListener("abort", quit);
    quit();
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
  for await (const frame of frames(response.body, stop)) {
    if (frame.name === "stream.gap" || frame.name === "stream.overflow") became("on", true);
    if (frame.id === "") continue;
    const event: Event = { id: frame.id, name: frame.name, data: JSON.parse(frame.data) };
    show(event);
    tell({ kind: "event", ...event });
  }
}

const wait = (ms: number, stop: AbortSignal) =>
  new Promise<void>((done) => {
    const end = () => {
      clearTimeout(timer);
      stop.removeEventListener("abort", end);
      done();
    };
    const timer = setTimeout(end, ms);
    stop.addEventListener("abort", end);
  });

async function lead(stop: AbortSignal): Promise<void> {
  leading = true;
  while (!stop.aborted && who.value && !ended.value) {
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
  if (door === "operators") return open_();
  setTimeout(open_, OPENING_MS);
  let stop: AbortController | null = null;
  let hidden: ReturnType<typeof setTimeout> | undefined;
  const start = () => {
    clearTimeout(hidden);
    if (stop || document.hidden || !who.value || ended.value) return;
    if (state.peek() === "off") state.value = "connecting";
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
  effect(() => (who.value && !ended.value ? start() : end()));
  listen((message) => {
    if (message.kind === "event") show({ id: message.id, name: message.name, data: message.data as Event["data"] });
    if (message.kind === "want-stream" && leading) tell({ kind: "stream", state: state.value, lost: false });
    if (message.kind === "stream") {
      showState(message.state as State, message.lost);
    }
  });
}
