// What the tabs of one browser share: tokens and events, by a channel, and turns, by locks. Where a browser gives pages of
// plain HTTP no locks, each tab is on its own.

export interface SharedToken {
  access: string;
  /** By this browser's clock, in milliseconds. */
  until: number;
  /** The network is simulated, and has a phone that scans for whoever asks. */
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

/** Does something while no other tab does, and tells it whether another one did just before; `signal` gives up the wait. */
export async function alone<T>(name: string, work: (waited: boolean) => Promise<T>, signal?: AbortSignal): Promise<T> {
  if (!navigator.locks) return work(false);
  const lock = `gateway-${name}`;
  const atOnce = { ifAvailable: true };
  const done = await navigator.locks.request(lock, atOnce, async (held) => held && { value: await work(false) });
  if (done) return done.value;
  return navigator.locks.request(lock, signal ? { signal } : {}, () => work(true)) as Promise<T>;
}
