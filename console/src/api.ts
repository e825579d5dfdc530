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

/** An answer that is no success, or none at all (`status` 0). */
export class Refused extends Error {
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

  get unanswered(): boolean {
    return this.status === 0;
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
}

export function withQuery(path: string, query: Query | undefined): string {
  const entries = Object.entries(query ?? {}).filter(([, value]) => value !== undefined && value !== null && value !== "");
  if (entries.length === 0) return path;
  return `${path}?${new URLSearchParams(entries.map(([name, value]) => [name, String(value)]))}`;
}

const wait = (ms: number) => new Promise((done) => setTimeout(done, ms));

async function refusal(response: Response): Promise<Refused> {
  const retryAfter = Number(response.headers.get("retry-after") ?? 0);
  const requestId = response.headers.get("x-request-id");
  try {
    const { error } = await response.json();
    return new Refused(response.status, error.code, error.message, requestId, error.details, retryAfter);
  } catch {
    return new Refused(response.status, "unknown", `the node answered ${response.status}`, requestId, null, retryAfter);
  }
}

/** A call as it goes out; the answer is a success, whole or a stream. */
export async function open(method: string, path: string, call: Call = {}): Promise<Response> {
  for (let attempt = 0; ; attempt++) {
    const headers: Record<string, string> = { ...call.headers };
    const bearer = credentials ? await credentials.bearer() : "";
    if (credentials) headers["authorization"] = `Bearer ${bearer}`;
    const init: RequestInit = { method, headers, cache: "no-store" };
    if (call.signal) init.signal = call.signal;
    if (call.body instanceof FormData) {
      init.body = call.body;
    } else if (call.body !== undefined) {
      headers["content-type"] = "application/json";
      init.body = JSON.stringify(call.body);
    }
    let response: Response;
    try {
      response = await fetch(PREFIX + withQuery(path, call.query), init);
    } catch (error) {
      if (call.signal?.aborted) throw error;
      reachable.value = false;
      if (method === "GET" && attempt < 2) {
        await wait(400 * (attempt + 1));
        continue;
      }
      throw new Refused(0, "unreachable", "the node did not answer", null, null, 0);
    }
    reachable.value = true;
    if (response.ok) return response;
    const refused = await refusal(response);
    if (refused.status === 401 && credentials && attempt === 0 && (await credentials.renew(refused, bearer))) continue;
    // Reads wait for their turn by themselves; what changes something is tried again by the person alone.
    const busy = refused.code === "rate_limited" || refused.status === 503;
    if (busy && method === "GET" && attempt < 4 && refused.retryAfter > 0 && refused.retryAfter <= 10) {
      await wait(refused.retryAfter * 1000 + Math.random() * 300);
      continue;
    }
    throw refused;
  }
}

export async function call<T>(method: string, path: string, options: Call = {}): Promise<T> {
  const response = await open(method, path, options);
  if (response.status === 204) return undefined as T;
  return (await response.json()) as T;
}

export const get = <T>(path: string, query?: Query, signal?: AbortSignal) =>
  call<T>("GET", path, { ...(query && { query }), ...(signal && { signal }) });
export const post = <T>(path: string, body?: unknown) => call<T>("POST", path, { body });
export const patch = <T>(path: string, body?: unknown) => call<T>("PATCH", path, { body });
export const remove = <T>(path: string, query?: Query) => call<T>("DELETE", path, { ...(query && { query }) });

export interface Page<T> {
  data: T[];
  next_cursor?: string | null;
}

/** A call as a line for a terminal; the token is left out. */
export function asCurl(method: string, path: string, body?: unknown): string {
  const at = `${location.origin}${path}`;
  const quote = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;
  const token = door === "members" ? "$KEY" : "$TOKEN";
  const parts = ["curl -sS", ...(method === "GET" ? [] : [`-X ${method}`]), `-H "Authorization: Bearer ${token}"`];
  if (body !== undefined) parts.push("-H 'Content-Type: application/json'", `-d ${quote(JSON.stringify(body))}`);
  return [...parts, quote(at)].join(" ");
}
