// What the tabs of one browser share: tokens and events, by a channel, and turns, by locks. A browser gives pages of plain HTTP from
// another machine no locks: there a turn is a lease in the browser's storage.

export interface SharedToken {
  access: string;
  /** By this browser's clock, in milliseconds. */
  until: number;
  /** Whether the network is simulated, and has a phone scan a QR code on request. */
  simulatedPhones: boolean;
}

export type Message =
  | { kind: "token"; token: SharedToken }
  | { kind: "want-token" }
  /** `of` is the access token whose session has ended; `null` for whichever there is. */
  | { kind: "signed-out"; why: string | null; of: string | null }
  | { kind: "event"; id: string; name: string; data: unknown }
  | { kind: "stream"; state: string; lost: boolean }
  | { kind: "want-stream" };

const channel = new BroadcastChannel(`gateway-console-${document.documentElement.dataset.door}`);
const listeners = new Set<(message: Message) => void>();
channel.onmessage = ({ data }) => listeners.forEach((listener) => listener(data as Message));

export function tell(message: Message): void {
  channel.postMessage(message);
}

export function listen(listener: (message: Message) => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** A tab that is gone leaves its lease for so long; one that works renews it before. */
const LEASE_MS = 5_000;
const RENEW_MS = 1_500;
/** Two tabs that take a lease at once see by then which of them has it. */
const SETTLE_MS = 50;

const pause = (ms: number) => new Promise((done) => setTimeout(done, ms));

async function byLease<T>(name: string, work: (waited: boolean) => Promise<T>, signal?: AbortSignal): Promise<T> {
  const own = String(Math.random());
  const holder = () => {
    const [by, until] = (localStorage.getItem(name) ?? "").split(" ");
    return Number(until) > Date.now() ? by : undefined;
  };
  const hold = () => localStorage.setItem(name, `${own} ${Date.now() + LEASE_MS}`);
  let waited = false;
  for (;;) {
    signal?.throwIfAborted();
    if (holder() === undefined) {
      hold();
      await pause(SETTLE_MS);
      if (holder() === own && !signal?.aborted) break;
      if (holder() === own) localStorage.removeItem(name);
    }
    waited = true;
    await pause(200 + Math.random() * 200);
  }
  const renewal = setInterval(hold, RENEW_MS);
  try {
    return await work(waited);
  } finally {
    clearInterval(renewal);
    if (holder() === own) localStorage.removeItem(name);
  }
}

/** The name under which the tabs of this browser take their turns at something. */
const turn = (name: string) => `gateway-${name}`;

/** Whether a tab has its turn at something now. */
export async function isUnderWay(name: string): Promise<boolean> {
  const turns = await navigator.locks?.query();
  return turns?.held?.some((held) => held.name === turn(name)) ?? false;
}

/** Does something while no other tab does, and tells it whether another one did just before; `signal` gives up the wait. */
export async function alone<T>(name: string, work: (waited: boolean) => Promise<T>, signal?: AbortSignal): Promise<T> {
  const lock = turn(name);
  if (!navigator.locks) return byLease(lock, work, signal);
  const atOnce = { ifAvailable: true };
  const done = await navigator.locks.request(lock, atOnce, async (held) => held && { value: await work(false) });
  if (done) return done.value;
  return navigator.locks.request(lock, signal ? { signal } : {}, () => work(true)) as Promise<T>;
}
