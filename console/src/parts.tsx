// The parts that pages are made of.
import { Component, type CSSProperties, type ComponentChildren, type JSX } from "preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { type Signal, signal } from "@preact/signals";
import { type Page, Refused, door, nodeTime } from "./api";
import { toTitle } from "./focus";
import { onEvent, opened, reloads, state, type Event } from "./live";
import { href, place } from "./router";
import { ended } from "./session";
import type { Channel } from "./types";
import { ADVICE, REASON, STATUS } from "./words";

// Data.

export interface Loaded<T> {
  data: T | undefined;
  error: Refused | undefined;
  loading: boolean;
  /** When `data` came, in milliseconds. */
  at: number;
  reload: () => void;
  set: (data: T) => void;
}

export interface Watch {
  /** Events after which the data is loaded again. */
  on?: (event: Event) => boolean;
  /** Milliseconds between two loads while events go on, where those of a few are not for long. */
  steady?: number;
  /** Milliseconds between two looks where no events come: live updates are off, or the operators' port has none. */
  every?: number;
  /** More than the first part of a list is shown: nothing is loaded by itself, as that would fold it up again. */
  isHeld?: boolean;
}

/** After an event the data is loaded so soon, some times in a row; while events go on, once in so long. */
const SOON_MS = 150;
const STEADY_MS = 2_000;
const IN_A_ROW = 8;

/** When loads may follow events, by a clock of milliseconds: what somebody watches, such as ticks and the answer to a message, comes
 * at once; events without an end cost the node no more for that. */
export function loadLimiter(steady: number) {
  let paidUntil = 0;
  return {
    began(now: number) {
      paidUntil = Math.min(Math.max(paidUntil, now) + steady, now + (IN_A_ROW + 1) * steady);
    },
    pause: (now: number) => Math.max(SOON_MS, paidUntil - IN_A_ROW * steady - now),
  };
}

/** Does something again and again for as long as the tab is seen, and also when it comes to be seen again. */
export function whileSeen(ms: number, work: () => void): () => void {
  let timer: ReturnType<typeof setInterval> | undefined;
  const set = () => {
    clearInterval(timer);
    if (!document.hidden) timer = setInterval(work, ms);
  };
  const changed = () => {
    set();
    if (!document.hidden) work();
  };
  set();
  document.addEventListener("visibilitychange", changed);
  return () => {
    clearInterval(timer);
    document.removeEventListener("visibilitychange", changed);
  };
}

function clock(ms: number): Signal<number> {
  let stop = () => {};
  const ticks: Signal<number> = signal(0, {
    watched: () => (stop = whileSeen(ms, () => ticks.value++)),
    unwatched: () => stop(),
  });
  return ticks;
}

const seconds = clock(1_000);
const minutes = clock(60_000);

/** The time, for what is drawn anew each second. */
export function now(): number {
  void seconds.value;
  return nodeTime();
}

function refused(error: unknown): Refused {
  return error instanceof Refused ? error : new Refused(0, "console", String(error), null, null, 0);
}

/** Loads what a page shows, and again when it may have changed. What is shown stays while a newer answer is on its way.
 * One load is under way at a time; what comes meanwhile is followed by another one. */
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, deps: unknown[], watch: Watch = {}): Loaded<T> {
  const [shown, show] = useState<{ data?: T; error?: Refused; loading: boolean; at: number }>({ loading: true, at: 0 });
  const loading = useRef({ again: () => {}, poll: () => {} });
  const key = JSON.stringify(deps);
  const isIn = !ended.value;
  const missed = reloads.value;
  /** `missed` as it was when the last load began. */
  const known = useRef(0);
  const latest = useRef({ load, watch });
  latest.current = { load, watch };
  const { every, isHeld } = watch;
  useEffect(() => {
    // Until the person has signed in again, all that is shown stays as it is.
    if (!isIn) return;
    const stop = new AbortController();
    let isBusy = false;
    let isWanted = false;
    let due: ReturnType<typeof setTimeout> | undefined;
    const loads = loadLimiter(latest.current.watch.steady ?? STEADY_MS);
    const run = async () => {
      clearTimeout(due);
      due = undefined;
      if (stop.signal.aborted) return;
      isWanted = isBusy || document.hidden;
      if (isWanted) return;
      isBusy = true;
      show((before) => ({ ...before, loading: true }));
      if (latest.current.watch.on) await opened;
      known.current = reloads.peek();
      loads.began(performance.now());
      try {
        const data = await latest.current.load(stop.signal);
        if (!stop.signal.aborted) show({ data, loading: false, at: nodeTime() });
      } catch (error) {
        if (!stop.signal.aborted) show((before) => ({ ...before, error: refused(error), loading: false }));
      }
      isBusy = false;
      if (isWanted && !stop.signal.aborted) soon();
    };
    const soon = () => {
      isWanted ||= isBusy || document.hidden;
      if (isBusy || document.hidden || due !== undefined) return;
      due = setTimeout(run, loads.pause(performance.now()));
    };
    loading.current = { again: run, poll: () => void (isBusy || run()) };
    void run();
    const deaf = onEvent((event) => {
      const { on, isHeld } = latest.current.watch;
      if (!isHeld && on?.(event)) soon();
    });
    const seen = () => {
      if (!document.hidden && isWanted && !isBusy) void run();
    };
    document.addEventListener("visibilitychange", seen);
    return () => {
      stop.abort();
      clearTimeout(due);
      deaf();
      document.removeEventListener("visibilitychange", seen);
    };
  }, [key, isIn]);
  useEffect(() => {
    if (!every || isHeld || !isIn) return;
    return whileSeen(every, () => {
      if (state.peek() !== "on" || !latest.current.watch.on) loading.current.poll();
    });
  }, [key, isIn, every, isHeld]);
  useEffect(() => {
    if (missed > known.current && latest.current.watch.on && !isHeld) loading.current.again();
  }, [missed]);
  return {
    data: shown.data,
    error: shown.error,
    loading: shown.loading,
    at: shown.at,
    reload: () => loading.current.again(),
    set: (data) => show({ data, loading: false, at: nodeTime() }),
  };
}

/** A long list, one page of it at a time: neither the document nor the calls that keep it fresh grow with how far one has gone. */
export function usePages<T>(load: (cursor: string | undefined, signal: AbortSignal) => Promise<Page<T>>, deps: unknown[], watch: Watch = {}) {
  const key = JSON.stringify(deps);
  const [at, setAt] = useState<{ key: string; cursors: string[] }>({ key, cursors: [] });
  const cursors = at.key === key ? at.cursors : [];
  const list = useLoad((signal) => load(cursors.at(-1), signal), [key, cursors], watch);
  const turn = (to: string[]) => {
    setAt({ key, cursors: to });
    announce(`Page ${to.length + 1}`);
  };
  const next = list.data?.next_cursor;
  return {
    ...list,
    page: cursors.length + 1,
    back: cursors.length > 0 ? () => turn(cursors.slice(0, -1)) : undefined,
    // While the next page is on its way, the one before it is shown.
    forth: next && next !== cursors.at(-1) ? () => turn([...cursors, next]) : undefined,
  };
}

/** A list whose parts are fetched one after the other and shown together. While more than the first is shown, nothing is loaded by
 * itself; what comes for another list than the one that is shown is dropped. */
export function useGrowing<T, L extends Page<T> = Page<T>>(
  first: (signal: AbortSignal) => Promise<L>,
  next: (cursor: string, of: L) => Promise<Page<T>>,
  deps: unknown[],
  watch: Watch = {},
) {
  const [kept, keep] = useState<Page<T>>();
  const { busy, error, run, clear } = useAction();
  const list = useLoad(first, deps, { ...watch, isHeld: busy || kept !== undefined });
  const of = list.data;
  const key = JSON.stringify(deps);
  const latest = useRef({ of, key });
  latest.current = { of, key };
  useLayoutEffect(() => {
    keep(undefined);
    if (error) clear();
  }, [of]);
  const cursor = (kept ?? of)?.next_cursor;
  const load = () =>
    run(async () => {
      let asked = of!;
      let page = await next(cursor!, asked);
      // What was on its way already may have come first: what follows that is another part.
      if (latest.current.key === key && latest.current.of !== asked && !kept && latest.current.of?.next_cursor) {
        asked = latest.current.of;
        page = await next(asked.next_cursor!, asked);
      }
      if (latest.current.of === asked) keep({ data: [...(kept?.data ?? []), ...page.data], next_cursor: page.next_cursor ?? null });
    });
  const rows = [...(of?.data ?? []), ...(kept?.data ?? [])];
  return { ...list, rows, more: { cursor, busy, error, load: () => void load(), isEmpty: rows.length === 0 } };
}

/** Does something once at a time, and keeps what was refused. */
export function useAction(): {
  busy: boolean;
  error: Refused | undefined;
  run: (work: () => Promise<unknown>) => Promise<boolean>;
  clear: () => void;
} {
  const [doing, set] = useState<{ busy: boolean; error?: Refused }>({ busy: false });
  const busy = useRef(false);
  return {
    busy: doing.busy,
    error: doing.error,
    clear: () => set({ busy: false }),
    async run(work) {
      if (busy.current) return false;
      busy.current = true;
      const focused = document.activeElement;
      set({ busy: true });
      try {
        await work();
        set({ busy: false });
        return true;
      } catch (error) {
        set({ busy: false, error: refused(error) });
        return false;
      } finally {
        busy.current = false;
        // A button that was disabled meanwhile has lost the focus.
        requestAnimationFrame(() => {
          const isLost = () => document.activeElement === document.body && focused !== document.body;
          if (isLost() && focused instanceof HTMLElement) focused.focus();
          if (isLost()) toTitle();
        });
      }
    },
  };
}

/** Says whether what has begun something is still shown: whoever has closed a dialog meanwhile, or gone elsewhere, stays there. */
export function useShown(): () => boolean {
  const isGone = useRef(false);
  useEffect(() => () => void (isGone.current = true), []);
  return () => !isGone.current;
}

// What is said to those who listen: one sentence in five seconds at most, and of several the newest.

const SPOKEN_MS = 5_000;
export const announcement = signal("");
let spokenAt = -SPOKEN_MS;
let next: ReturnType<typeof setTimeout> | undefined;
export function announce(sentence: string): void {
  clearTimeout(next);
  const speak = () => {
    spokenAt = performance.now();
    // The same once more is read out only where it differs.
    announcement.value = announcement.value === sentence ? `${sentence}\u00a0` : sentence;
  };
  const rest = spokenAt + SPOKEN_MS - performance.now();
  if (rest > 0) next = setTimeout(speak, rest);
  else speak();
}

/** Says a sentence whenever another one has taken its place; the first one is read with the page. */
export function useAnnounced(sentence: string | undefined): void {
  const before = useRef(sentence);
  useEffect(() => {
    if (sentence !== undefined && before.current !== undefined && sentence !== before.current) announce(sentence);
    before.current = sentence;
  }, [sentence]);
}

const toast = signal<Shown>();
let toastTimer: ReturnType<typeof setTimeout> | undefined;
export function say(sentence: string): void {
  toast.value = { at: performance.now(), text: sentence };
  announce(sentence);
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => (toast.value = undefined), 4000);
}

export function Toast() {
  return <Above class="toast" shown={toast.value} />;
}

interface Shown {
  at: number;
  text: string;
}

/** A sentence over everything. A dialog is over everything but what is opened after it, and so each sentence gets an element of its own. */
function Above({ shown, ...more }: { shown: Shown | undefined; class: string; style?: CSSProperties }) {
  const own = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => own.current?.showPopover?.(), [shown]);
  return shown ? (
    <div key={shown.at} ref={own} popover="manual" aria-hidden="true" {...more}>
      {shown.text}
    </div>
  ) : null;
}

// Text that others wrote.

// The joiners of emoji and of Persian are left where they join: between plain letters they only hide.
const INVISIBLE = /\r(?!\n)|[\0-\x08\x0b\f\x0e-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]|(?<=[ -~])[\u200c\u200d]/g;

/** Control and direction characters are shown as their numbers, so that text cannot dress as other text. */
export function plain(text: string): string {
  return text.replace(INVISIBLE, (c) => `⟨U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

/** A name as somebody can type it who sees it: what cannot be seen does not count. */
function typeable(name: string): string {
  return name.replace(INVISIBLE, "").normalize().replace(/\s+/g, " ").trim();
}

export function Theirs({ text }: { text: string | null | undefined }) {
  return <bdi>{plain(text ?? "")}</bdi>;
}

// Small parts.

/** What a window is called: the page, and whose it is. */
export function nameWindow(page: string): void {
  document.title = `${page} · ${door === "members" ? "Gateway console" : "Gateway operators"}`;
}

export function Title({ children, extra }: { children: ComponentChildren; extra?: ComponentChildren }) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => nameWindow(heading.current?.textContent ?? ""));
  return (
    <header class="title">
      <h1 ref={heading} tabIndex={-1}>{children}</h1>
      {extra && <div class="actions">{extra}</div>}
    </header>
  );
}

/** A word of the interface with its sentence, which whoever comes by with the mouse or the Tab key gets. */
export function Word({ about, children, ...more }: { about: string; children: ComponentChildren; class?: string }) {
  return about ? (
    <span {...more} role="note" title={about} tabIndex={0}>
      {children}
    </span>
  ) : (
    <span {...more}>{children}</span>
  );
}

/** `title` is empty where its sentence stands beside it. */
export function Badge({ status, title }: { status: string; title?: string | undefined }) {
  return (
    <Word class={`badge is-${status}`} about={title ?? STATUS[status] ?? ""}>
      <span class="shape" aria-hidden="true" />
      {status}
    </Word>
  );
}

/** The status of a channel, with its reason. */
export function Standing({ channel: { status, status_reason: reason } }: { channel: Pick<Channel, "status" | "status_reason"> }) {
  return (
    <>
      <Badge status={status} title="" />
      <p class="fine">{reason && reason !== "created" ? sentence(`${REASON[reason] ?? reason}`) : STATUS[status]}</p>
    </>
  );
}

/** Shows the sentence of what has the focus. A mouse that stays over something gets it from the browser. */
export function Tip() {
  const [tip, show] = useState<Shown & { left: number; top: number }>();
  useEffect(() => {
    let isMouse = false;
    const hide = () => show(undefined);
    const look = (event: FocusEvent) => {
      const at = event.target;
      const text = at instanceof HTMLElement && !isMouse ? at.title : "";
      if (!text) return hide();
      const { left, bottom } = (at as HTMLElement).getBoundingClientRect();
      show({ at: performance.now(), text, left: Math.max(8, Math.min(left, innerWidth - 328)), top: Math.min(bottom + 6, innerHeight - 80) });
    };
    const pointed = (event: PointerEvent) => (isMouse = event.pointerType === "mouse");
    const pressed = (event: KeyboardEvent) => {
      isMouse = false;
      if (event.key === "Escape") hide();
    };
    const listeners: [string, (event: any) => void][] = [["focusin", look], ["focusout", hide], ["pointerdown", pointed], ["keydown", pressed], ["scroll", hide]];
    for (const [name, listener] of listeners) document.addEventListener(name, listener, true);
    window.addEventListener("resize", hide);
    return () => {
      listeners.forEach(([name, listener]) => document.removeEventListener(name, listener, true));
      window.removeEventListener("resize", hide);
    };
  }, []);
  return <Above class="tip" shown={tip} style={{ left: `${tip?.left}px`, top: `${tip?.top}px` }} />;
}

const units: [Intl.RelativeTimeFormatUnit, number][] = [
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
  ["second", 1],
];
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

export function ago(then: number, now = nodeTime()): string {
  const seconds = Math.round((then - now) / 1000);
  const [unit, size] = units.find(([, size]) => Math.abs(seconds) >= size) ?? ["second", 1];
  return relative.format(Math.trunc(seconds / size), unit);
}

/** How times are shown: by how long ago they were, in UTC, or in the account's zone. */
export type Clock = "ago" | "UTC" | "zone";
const CLOCK = "gateway-times";
const CLOCKS: Clock[] = ["ago", "UTC", "zone"];
export const clockFace = signal<Clock>(CLOCKS.find((face) => face === localStorage.getItem(CLOCK)) ?? "ago");
/** Of the account; UTC until it is known, and for operators. */
export const zone = signal("UTC");
/** Counts what the page changes of the account, after which every part that shows it loads it again. */
export const accountChanges = signal(0);

export function ClockSwitch() {
  const faces: [Clock, string][] = [
    ["ago", "how long ago"],
    ["UTC", "in UTC"],
    ...(zone.value === "UTC" ? [] : [["zone", `in ${zone.value}`] as [Clock, string]]),
  ];
  return (
    <Field label="Times" name="times" value={clockFace.value}
      onChange={(event) => {
        clockFace.value = event.currentTarget.value as Clock;
        localStorage.setItem(CLOCK, clockFace.value);
      }}>
      {faces.map(([face, label]) => (
        <option key={face} value={face}>
          {label}
        </option>
      ))}
    </Field>
  );
}

const formats = new Map<string, Intl.DateTimeFormat>();
/** As `2026-01-31 12:00:00`, in a zone. */
export function inZone(time: Date, timeZone: string): string {
  let format = formats.get(timeZone);
  if (!format) {
    try {
      format = new Intl.DateTimeFormat("sv-SE", { timeZone, dateStyle: "short", timeStyle: "medium" });
    } catch {
      // A zone that this browser does not know.
      return time.toISOString();
    }
    formats.set(timeZone, format);
  }
  return format.format(time);
}

/** What a field of the kind `datetime-local` holds, taken as UTC: without that it would be the time of wherever the browser is. */
export const asUtc = (typed: string) => new Date(`${typed}Z`).toISOString();

/** `null` shows a dash. */
export function Time({ at }: { at: string | number | null | undefined }) {
  if (at === null || at === undefined) return <span class="none">–</span>;
  const time = new Date(at);
  const face = clockFace.value;
  if (face === "ago") void (Math.abs(time.getTime() - nodeTime()) < 60_000 ? seconds : minutes).value;
  return (
    <time dateTime={time.toISOString()} title={time.toISOString()}>
      {face === "ago" ? ago(time.getTime()) : inZone(time, face === "UTC" ? "UTC" : zone.value)}
    </time>
  );
}

/** How long something lasts, in the unit in which it is short. */
export function span(ms: number): string {
  if (ms < 1_000) return `${ms} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  return ms < 3_600_000 ? `${Math.round(ms / 60_000)} min` : `${(ms / 3_600_000).toFixed(1)} h`;
}

const grouped = new Intl.NumberFormat("en");
export function number(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : grouped.format(value);
}

export function millis(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : `${number(value)} ms`;
}

export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  const sizes = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (value >= 1024 && at < sizes.length - 1) {
    value /= 1024;
    at++;
  }
  return `${value < 10 && at > 0 ? value.toFixed(1) : Math.round(value)} ${sizes[at]}`;
}

/** What the browser does not let this page copy, as on plain HTTP from another machine: the person does it by hand. */
export const byHand = signal<string | null>(null);

export async function copy(text: string, what = "Copied"): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    say(what);
  } catch {
    byHand.value = text;
  }
}

export function CopyByHand({ text }: { text: string }) {
  const close = () => (byHand.value = null);
  return (
    <Dialog title="Copy this by hand" close={close}>
      <p>Your browser does not let this page copy. The whole text is selected below: press Ctrl-C to copy it.</p>
      <textarea readOnly autofocus rows={4} aria-label="The text to copy" value={text} onFocus={(event) => event.currentTarget.select()} />
      <Done close={close} />
    </Dialog>
  );
}

/** An id, shortened in the middle; a click copies it whole. */
export function Id({ id }: { id: string | null | undefined }) {
  if (!id) return <span class="none">–</span>;
  const short = id.length > 16 ? `${id.slice(0, 8)}…${id.slice(-4)}` : id;
  return (
    <button type="button" class="id" title={`${id} (click to copy)`} onClick={() => copy(id)}>
      <span class="hidden">Copy </span>
      {short}
    </button>
  );
}

export function CopyButton({ text, children }: { text: string; children: ComponentChildren }) {
  return (
    <button type="button" class="quiet" onClick={() => copy(text)}>
      {children}
    </button>
  );
}

/** A secret that is shown once. */
export function Secret({ label, secret }: { label: string; secret: string }) {
  return (
    <div class="secret" role="group" aria-label={label}>
      <p>
        <strong>{label}</strong>. It is shown only once, so copy it now.
      </p>
      <code>{secret}</code> <CopyButton text={secret}>Copy</CopyButton>
    </div>
  );
}

/** What was refused, why, and what to do. */
export function Failure({ error, retry }: { error: Refused | undefined; retry?: () => void }) {
  if (!error) return null;
  const issues = error.issues();
  // The message of such a refusal says of a field what stands below.
  const advice = issues.length > 0 ? "Change this, then try again:" : ADVICE[error.code];
  const details = error.details as { required?: unknown; allowed_from?: string[] } | null;
  return (
    <div class="failure" role="alert">
      <p>{advice ?? sentence(error.message)}</p>
      {error.code === "insufficient_scope" && details?.required !== undefined && (
        <p>Required: {String(details.required)}</p>
      )}
      {details?.allowed_from && <p>Possible while the channel is: {details.allowed_from.join(", ")}</p>}
      {issues.map((issue) => (
        <p key={issue.path.join(".") + issue.code}>
          <code>{issue.path.join(".") || "body"}</code> {issue.message}
        </p>
      ))}
      <p class="fine">
        {advice && issues.length === 0 ? `${error.message} · ` : ""}
        <code>{error.code}</code>
        {error.requestId && (
          <>
            {" "}
            · request <Id id={error.requestId} />
            {door === "members" && error.status >= 500 && (
              <>
                {" "}
                · <a href={href("support", { create: "1", request: error.requestId })}>Ask about this</a>
              </>
            )}
          </>
        )}
      </p>
      {[429, 503].includes(error.status) && error.retryAfter > 0 && <Countdown error={error} retry={retry} />}
      {retry && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

/** How long there is to wait; what is only read goes on by itself. */
function Countdown({ error, retry }: { error: Refused; retry: (() => void) | undefined }) {
  const left = Math.max(0, Math.ceil((error.at - now()) / 1000 + error.retryAfter));
  useEffect(() => {
    if (left === 0) retry?.();
  }, [left === 0]);
  return <p aria-live="off">{retry ? `Trying again in ${left} s.` : left > 0 ? `Try again in ${left} s.` : "Try again now."}</p>;
}

function sentence(text: string): string {
  return text === "" ? text : `${text[0]!.toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;
}

/** The four faces of a page's data: loading, failed, empty, filled. */
export function Faces<T>({
  of,
  children,
  isEmpty,
  empty,
}: {
  of: Loaded<T>;
  children: (data: T) => ComponentChildren;
  isEmpty?: (data: T) => boolean;
  empty?: ComponentChildren;
}) {
  const { data, error, loading, at, reload } = of;
  if (data === undefined) {
    if (error) return <Failure error={error} retry={reload} />;
    return loading ? <Skeleton /> : null;
  }
  return (
    <>
      {error && (
        <>
          <p class="stale">Last updated <Time at={at} />.</p>
          <Failure error={error} retry={reload} />
        </>
      )}
      {isEmpty?.(data) ? <div class="empty">{empty}</div> : children(data)}
    </>
  );
}

export function Skeleton() {
  return (
    <div class="skeleton" aria-busy="true">
      <span class="hidden">Loading</span>
      <i />
      <i />
      <i />
    </div>
  );
}

export interface Column<T> {
  head: string;
  cell: (row: T) => ComponentChildren;
  /** Numbers stand to the right. */
  end?: boolean;
}

interface RowProps<T> {
  row: T;
  columns: Column<T>[];
  stays: boolean;
}

/** A row of a table. The elements of a row that does not change are not kept: they would keep those of all rows beside which it was
 * ever drawn. */
class Row<T> extends Component<RowProps<T>> {
  override shouldComponentUpdate(next: RowProps<T>) {
    return !next.stays || next.row !== this.props.row;
  }

  override render() {
    const { row, columns } = this.props;
    return (
      <tr>
        {columns.map((column) => (
          <td key={column.head} data-head={column.head} class={column.end ? "end" : ""}>
            <div class="cell">{column.cell(row)}</div>
          </td>
        ))}
      </tr>
    );
  }
}

export function Table<T>({
  rows,
  columns,
  name,
  id,
  stay = false,
}: {
  rows: T[];
  columns: Column<T>[];
  name: string;
  id: (row: T) => string;
  /** Whether rows do not change: they are not drawn again, however often others come. */
  stay?: boolean;
}) {
  return (
    <div class="table" role="region" aria-label={name} tabIndex={0}>
      <table>
        <caption class="hidden">{name}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.head} scope="col" class={column.end ? "end" : ""}>
                {column.head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <Row key={id(row)} row={row} columns={columns} stays={stay} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** A labelled field; what the node says is wrong with it stands below. */
export function Field({
  label,
  name,
  error,
  hint,
  children,
  ...input
}: {
  label: ComponentChildren;
  name: string;
  error?: Refused | undefined;
  hint?: ComponentChildren;
  children?: ComponentChildren;
} & Omit<JSX.IntrinsicElements["input"], "label" | "name" | "children" | "error" | "role" | "type" | "list"> & { type?: string; list?: string }) {
  const id = useId();
  const issues = error?.issues().filter((issue) => issue.path[0] === name || issue.path.join(".") === name) ?? [];
  const described = issues.length > 0 || hint ? `${id}-about` : undefined;
  const common = { id, name, "aria-describedby": described, "aria-invalid": issues.length > 0, ...(!children && (input.type ?? "text") === "text" && { dir: "auto" }) };
  // Who hears of the end of a change alone gives the former value until then, which must not take the place of what is being typed.
  const [typed, setTyped] = useState<string>();
  const { value, onChange, onInput } = input;
  useEffect(() => setTyped(undefined), [value]);
  const kept = onChange && !onInput && !children && {
    value: typed ?? value,
    onInput: (event: { currentTarget: HTMLInputElement }) => setTyped(event.currentTarget.value),
  };
  return (
    <div class={issues.length > 0 ? "field is-wrong" : "field"}>
      <label for={id}>{label}</label>
      {children ? (
        <select {...({ ...common, ...input } as JSX.IntrinsicElements["select"])}>
          {children}
        </select>
      ) : (
        <input {...({ ...common, ...input, ...kept } as JSX.IntrinsicElements["input"])} />
      )}
      {described && (
        <p id={described} class="fine">
          {issues.length > 0 ? sentence(issues.map((issue) => issue.message).join("; ")) : hint}
        </p>
      )}
    </div>
  );
}

/** Filters that are seldom wanted: where there is little room they are folded up at first, unless one of them is set. */
export function MoreFilters({ isSet, children }: { isSet: boolean; children: ComponentChildren }) {
  const [isOpen] = useState(() => isSet || matchMedia("(min-width: 48rem)").matches);
  return (
    <details class="folded" open={isOpen}>
      <summary class="fine">More filters</summary>
      <div class="filters">{children}</div>
    </details>
  );
}

/** By how much a text is too long, in words. A browser's own limit would cut what is pasted without a word. */
export function tooLong(text: string, longest: number): string {
  const length = [...text].length;
  return length > longest ? `${number(length)} characters are too many: the limit is ${number(longest)}.` : "";
}

/** A labelled field of several lines. */
export function TextField({ label, name, value, longest, set }: { label: string; name: string; value: string; longest: number; set: (value: string) => void }) {
  const id = useId();
  const area = useRef<HTMLTextAreaElement>(null);
  const wrong = tooLong(value, longest);
  useEffect(() => area.current?.setCustomValidity(wrong), [wrong]);
  return (
    <div class={wrong ? "field is-wrong" : "field"}>
      <label for={id}>{label}</label>
      <textarea ref={area} id={id} name={name} rows={5} required dir="auto" value={value} aria-describedby={`${id}-about`} onInput={(event) => set(event.currentTarget.value)} />
      <p id={`${id}-about`} class="fine" role="status">
        {wrong}
      </p>
    </div>
  );
}

/** A dialog of the page; the focus goes back to where it was. */
export function Dialog({
  title,
  close,
  children,
}: {
  title: string;
  close: () => void;
  children: ComponentChildren;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const isGone = useRef(false);
  const id = useId();
  // Before the browser draws: a page that is gone to with the dialog open would have taken the focus already.
  useLayoutEffect(() => {
    const before = document.activeElement;
    const own = dialog.current;
    own?.showModal();
    return () => {
      isGone.current = true;
      // As long as it is open, nothing else takes the focus.
      own?.close();
      // What has opened it may be gone, as a row that was deleted is.
      if (before instanceof HTMLElement && before !== document.body && before.isConnected) before.focus();
      else toTitle();
    };
  }, []);
  return (
    <dialog ref={dialog} aria-labelledby={id} onCancel={close} onClose={() => !isGone.current && close()}>
      <header>
        <h2 id={id} tabIndex={-1}>
          {title}
        </h2>
        <button type="button" class="quiet" onClick={close} aria-label="Close">
          ✕
        </button>
      </header>
      {children}
      {/* What lies outside of an open dialog is not read to those who listen. */}
      <p class="hidden" role="status">
        {announcement.value}
      </p>
    </dialog>
  );
}

/** The end of a dialog's form: leaves it, or sends it. */
export function FormEnd({ close, label, disabled, danger }: { close: () => void; label: string; disabled: boolean; danger?: boolean }) {
  return (
    <div class="actions">
      <button type="button" class="quiet" onClick={close}>
        Cancel
      </button>
      <button type="submit" class={danger ? "danger" : undefined} disabled={disabled}>
        {label}
      </button>
    </div>
  );
}

/** The end of a dialog that has shown what there is to see. */
export function Done({ close }: { close: () => void }) {
  return (
    <div class="actions">
      <button type="button" onClick={close}>
        Done
      </button>
    </div>
  );
}

/** Asks before something happens; what cannot be undone wants a name typed, and shows the command that does the same. */
export function Confirm({
  title,
  about,
  action,
  typed,
  ready = true,
  command,
  close,
  work,
}: {
  title: string;
  about: ComponentChildren;
  action: string;
  typed?: string | undefined;
  /** What is shown about it is there. */
  ready?: boolean;
  command?: string;
  close: () => void;
  work: () => Promise<unknown>;
}) {
  const [text, setText] = useState("");
  const { busy, error, run } = useAction();
  const isShown = useShown();
  const word = typed === undefined ? undefined : typeable(typed) || action;
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    if ((await run(work)) && isShown()) close();
  };
  return (
    <Dialog title={title} close={close}>
      <form onSubmit={submit}>
        <div>{about}</div>
        {word !== undefined && (
          <Field
            label={<>Type <bdi>{word}</bdi> to confirm</>}
            name="typed"
            value={text}
            autocomplete="off"
            onInput={(event) => setText(event.currentTarget.value)}
          />
        )}
        {command && (
          <p class="fine">
            Or run: <code>{command}</code>
          </p>
        )}
        <Failure error={error} />
        <FormEnd close={close} label={action} danger disabled={busy || !ready || (word !== undefined && typeable(text) !== word)} />
      </form>
    </Dialog>
  );
}

/** Tabs of a page, as links. */
export function Tabs({ tabs, at, link }: { tabs: [string, string][]; at: string; link: (tab: string) => string }) {
  return (
    <nav class="tabs" aria-label="Parts of this page">
      {tabs.map(([tab, label]) => (
        <a key={tab} href={link(tab)} aria-current={tab === at ? "page" : undefined}>
          {label}
        </a>
      ))}
    </nav>
  );
}

export function Tile({ label, value, about, warn }: { label: string; value: ComponentChildren; about?: ComponentChildren; warn?: boolean }) {
  return (
    <div class={warn ? "tile is-warning" : "tile"}>
      <span class="fine">{label}</span>
      <strong>{value}</strong>
      {about && <span class="fine">{about}</span>}
    </div>
  );
}

/** A filter that fits little is looked for a part of the rows at a time: an empty page may have a next one. */
export const isNothing = (page: Page<unknown>) => page.data.length === 0 && !page.next_cursor;

export const NOTHING_YET = "Nothing matches in the part that was searched. There is more.";

/** The way to the next part of a list that grows. */
type Rest = { cursor: string | null | undefined; busy: boolean; error: Refused | undefined; load: () => void; isEmpty: boolean };

export function More({ of: { cursor, busy, error, load, isEmpty } }: { of: Rest }) {
  if (!cursor) return null;
  return (
    <div class="more">
      {isEmpty && <p role="status">{NOTHING_YET}</p>}
      <Failure error={error} />
      <button type="button" disabled={busy} onClick={load}>
        Show more
      </button>
    </div>
  );
}

/** A list in a table, with more of it where there is more. */
export function Listing<T extends { id: string }>({
  of,
  name,
  columns,
  empty,
}: {
  of: Loaded<Page<T>> & { rows: T[]; more: Rest };
  name: string;
  columns: Column<T>[];
  empty: ComponentChildren;
}) {
  return (
    <Faces of={of} isEmpty={isNothing} empty={empty}>
      {() => (
        <>
          <Table name={name} rows={of.rows} id={(row) => row.id} columns={columns} />
          <More of={of.more} />
        </>
      )}
    </Faces>
  );
}

/** The way from page to page of a list. */
export function Pages({ of }: { of: { page: number; back: (() => void) | undefined; forth: (() => void) | undefined } }) {
  if (of.page === 1 && !of.forth) return null;
  return (
    <nav class="more" aria-label="Pages of the list">
      <button type="button" class="quiet" disabled={!of.back} onClick={of.back}>
        Previous
      </button>{" "}
      <span class="fine">Page {of.page}</span>{" "}
      <button type="button" class="quiet" disabled={!of.forth} onClick={of.forth}>
        Next
      </button>
    </nav>
  );
}

/** Bars of counts, as a drawing; a table beside it has the same numbers. */
export function Bars({ rows, label }: { rows: { at: string; values: [string, number][] }[]; label: string }) {
  const most = Math.max(1, ...rows.map((row) => row.values.reduce((sum, [, value]) => sum + value, 0)));
  const width = 100 / Math.max(rows.length, 1);
  return (
    <figure class="chart is-apart">
      <figcaption>
        <strong>{label}</strong> <span class="fine">up to {number(most)}</span>
      </figcaption>
      <svg class="bars" viewBox="0 0 100 40" preserveAspectRatio="none" role="img" aria-label={label}>
        {rows.map((row, index) => {
          let below = 0;
          return row.values.map(([name, value], part) => {
            const height = (value / most) * 38;
            below += height;
            return (
              <rect key={`${index} ${name}`} class={`part-${part}`} x={index * width + width * 0.1} width={width * 0.8} y={40 - below} height={height}>
                <title>{`${plain(row.at)}: ${value} ${name}`}</title>
              </rect>
            );
          });
        })}
      </svg>
      <p class="ends fine">
        <span>{plain(rows[0]?.at ?? "")}</span>
        {rows.length > 1 && <span>{plain(rows.at(-1)!.at)}</span>}
      </p>
      <ul>
        {(rows[0]?.values ?? []).map(([name], part) => (
          <li key={name}>
            <svg class="swatch" viewBox="0 0 10 10" aria-hidden="true">
              <rect class={`part-${part}`} width={10} height={10} />
            </svg>{" "}
            {name}
          </li>
        ))}
      </ul>
    </figure>
  );
}

/** A file for the person to keep, made here. */
export function download(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Cells that a spreadsheet would take for formulas are made text. */
export function csv(rows: (string | number | null)[][]): string {
  const cell = (value: string | number | null) => {
    const text = value === null ? "" : typeof value === "number" ? String(value) : value.replace(/^[=+\-@\t\r]/, "'$&");
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => row.map(cell).join(",")).join("\r\n");
}

/** The value of a query parameter of the page. */
export function param(name: string): string {
  return place.value.query.get(name) ?? "";
}
