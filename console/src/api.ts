// One way to call the node that serves the page. A member's calls go to the copy of the interface that costs the account's
// programs nothing; an operator's go to the operators' routes.
import { signal } from "@preact/signals";

export const door: "members" | "operators" = document.documentElement.dataset.door === "operators" ? "operators" : "members";

const PREFIX = door === "members" ? "/console/api" : "";

export interface Issue {
  path: (string | number)[];
  code: string;
  message: string;
}

/** By how many milliseconds the node's clock is ahead of this browser's: 0, as long as no answer says otherwise. */
let ahead = 0;

/** The time by the node's clock: what the node says of times is held against it, whatever the clock of this browser says. */
export const nodeTime = () => Date.now() + ahead;

/** `ahead` as little changed as the date of an answer allows, which the node wrote, to the second, after the call had begun. */
function setClock(date: string | null, began: number): void {
  const dated = Date.parse(date ?? "");
  if (!Number.isNaN(dated)) ahead = Math.min(Math.max(ahead, dated - Date.now()), dated + 1_000 - began);
}

/** Of an answer that is not the gateway's own, or of none. */
const UNREACHABLE = "unreachable";

/** An answer that is no success, or none at all. */
export class Refused extends Error {
  /** By the node's clock: `retryAfter` counts from here. */
  readonly at = nodeTime();

  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly requestId: string | null,
    readonly details: unknown,
    readonly retryAfter: number,
  ) {
    super(message);
  }

  /** What is wrong with the fields of a form, by the name of the field. */
  issues(): Issue[] {
    return this.code === "invalid_request" && Array.isArray(this.details) ? (this.details as Issue[]) : [];
  }

  /** The gateway itself has not answered: what answers in its place, such as a balancer, does not know what became of the call. */
  get unanswered(): boolean {
    return this.code === UNREACHABLE;
  }

  /** What was asked for may have happened all the same. */
  get uncertain(): boolean {
    return this.unanswered || this.code === "outcome_unknown" || (this.details as { upstream?: string } | null)?.upstream === "timeout";
  }
}

/** Who is signed in: gives the bearer of each call, and another one when it has ended. */
export interface Credentials {
  bearer(): Promise<string>;
  /** The bearer was refused. Says whether another one is worth a try. */
  renew(refused: Refused, bearer: string): Promise<boolean>;
}

let credentials: Credentials | null = null;
export function use(with_: Credentials | null): void {
  credentials = with_;
}

/** Whether the last call reached the node: pages show the age of what they have where it did not. */
export const reachable = signal(true);

export type Query = Record<string, string | number | boolean | null | undefined>;

export interface Call {
  query?: Query;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** The same for everybody: asked for where everybody does, without saying who asks. */
  isPublic?: boolean;
}

export function withQuery(path: string, query: Query | undefined): string {
  const entries = Object.entries(query ?? {}).filter(([, value]) => value !== undefined && value !== null && value !== "");
  if (entries.length === 0) return path;
  return `${path}?${new URLSearchParams(entries.map(([name, value]) => [name, String(value)]))}`;
}

export const wait = (ms: number) => new Promise<void>((done) => setTimeout(done, ms));

/** Waits until the tab is seen: a hidden one asks for nothing. */
export const seen = () =>
  new Promise<void>((done) => {
    const look = () => {
      if (document.hidden) return;
      document.removeEventListener("visibilitychange", look);
      done();
    };
    document.addEventListener("visibilitychange", look);
    look();
  });

// A call that says nothing for so long counts as one without an answer. The node takes 30 s for its longest one; a file takes its time
// on the way.
const READ_MS = 20_000;
const CHANGE_MS = 40_000;
const UPLOAD_MS = 300_000;
/** A read that fails sooner is made again: another node may take it. */
const SOON_MS = 5_000;
/** A node that is busy for no longer, as while a lead moves, is asked again without a word; of a longer wait the page tells. */
const BUSY_SECONDS = 2;

async function refusal(response: Response): Promise<Refused> {
  const retryAfter = Number(response.headers.get("retry-after") ?? 0);
  const requestId = response.headers.get("x-request-id");
  const { error } = await response.json().catch(() => ({}));
  if (typeof error?.code === "string") return new Refused(response.status, error.code, error.message, requestId, error.details, retryAfter);
  return new Refused(response.status, UNREACHABLE, `the node did not answer; a proxy in front of it answered ${response.status}`, requestId, null, retryAfter);
}

/** One request, and its answer as `read` takes it. What is no success is thrown as [`Refused`]. */
export async function request<T>(path: string, init: RequestInit, read: (response: Response) => Promise<T>): Promise<T> {
  const own = new AbortController();
  const end = () => own.abort();
  const { signal, method, body } = init;
  signal?.addEventListener("abort", end);
  if (signal?.aborted) end();
  const patience = body instanceof FormData ? UPLOAD_MS : method === "GET" ? READ_MS : CHANGE_MS;
  const timer = setTimeout(end, patience);
  const began = Date.now();
  try {
    const response = await fetch(path, { ...init, cache: "no-store", signal: own.signal });
    setClock(response.headers.get("date"), began);
    if (!response.ok) throw await refusal(response);
    const data = await read(response);
    reachable.value = true;
    return data;
  } catch (error) {
    if (signal?.aborted) throw error;
    const refused = error instanceof Refused ? error : new Refused(0, UNREACHABLE, "the node did not answer", null, null, 0);
    reachable.value = !refused.unanswered;
    throw refused;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", end);
  }
}

async function repeated<T>(method: string, path: string, call: Call, read: (response: Response) => Promise<T>): Promise<T> {
  const from = call.isPublic ? null : credentials;
  for (let attempt = 0; ; attempt++) {
    const headers: Record<string, string> = { ...call.headers };
    const bearer = from ? await from.bearer() : "";
    if (from) headers["authorization"] = `Bearer ${bearer}`;
    const init: RequestInit = { method, headers };
    if (call.signal) init.signal = call.signal;
    if (call.body instanceof FormData) {
      init.body = call.body;
    } else if (call.body !== undefined) {
      headers["content-type"] = "application/json";
      init.body = JSON.stringify(call.body);
    }
    const began = Date.now();
    try {
      return await request((call.isPublic ? "" : PREFIX) + withQuery(path, call.query), init, read);
    } catch (refused) {
      if (!(refused instanceof Refused)) throw refused;
      if (refused.status === 401 && from && attempt === 0 && (await from.renew(refused, bearer))) continue;
      // Reads are repeated, and wait for their turn, by themselves; what changes something is tried again by the person alone.
      if (method !== "GET") throw refused;
      const busy = refused.code === "rate_limited" || refused.status === 503;
      if (busy && attempt < 4 && refused.retryAfter > 0 && refused.retryAfter <= BUSY_SECONDS) await wait(refused.retryAfter * 1000 + Math.random() * 300);
      else if (refused.unanswered && attempt < 2 && Date.now() - began < SOON_MS) await wait(400 * (attempt + 1));
      else throw refused;
      if (call.signal?.aborted) throw refused;
    }
  }
}

/** A call whose answer is read by whoever makes it, such as a stream. */
export const open = (method: string, path: string, options: Call = {}) => repeated(method, path, options, async (response) => response);

export const call = <T>(method: string, path: string, options: Call = {}) =>
  repeated<T>(method, path, options, async (response) => (response.status === 204 ? undefined : await response.json()));

export const get = <T>(path: string, query?: Query, signal?: AbortSignal) =>
  call<T>("GET", path, { ...(query && { query }), ...(signal && { signal }) });
export const post = <T>(path: string, body?: unknown) => call<T>("POST", path, { body });
export const patch = <T>(path: string, body?: unknown) => call<T>("PATCH", path, { body });
export const remove = <T>(path: string, query?: Query) => call<T>("DELETE", path, { ...(query && { query }) });

export interface Page<T> {
  data: T[];
  next_cursor?: string | null;
}

const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;

/** A text as one word of a line for a terminal. */
export const asWord = (text: string) => (/^[\w.:/@%+,=-]+$/.test(text) ? text : quoted(text));

/** A call as a line for a terminal; the token is left out. */
export function asCurl(method: string, path: string, body?: unknown): string {
  const at = `${location.origin}${path}`;
  const token = door === "members" ? "$KEY" : "$TOKEN";
  const parts = ["curl -sS", ...(method === "GET" ? [] : [`-X ${method}`]), `-H "Authorization: Bearer ${token}"`];
  if (body !== undefined) parts.push("-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(body))}`);
  return [...parts, quoted(at)].join(" ");
}
