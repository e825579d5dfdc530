// Who is signed in. A member's access token lives in this module alone and its refresh token in a cookie that no script
// reads; an operator's token lives here, and in this tab's storage only where that was asked for.
import { signal } from "@preact/signals";
import { type Credentials, Refused, call, door, request, use, wait } from "./api";
import { type SharedToken, alone, isUnderWay, listen, tell } from "./tabs";
import type { O } from "./types";

export interface Who {
  email: string;
  role: "owner" | "admin" | "member" | "viewer";
}

/** `undefined` until it is known. */
export const who = signal<Who | null | undefined>(undefined);
/** Whether the network is simulated, and has a phone that scans for whoever asks. */
export const simulatedPhones = signal(false);
/** The session of `who` is over. The page stays as it is, with what was typed, until that person has signed in again. */
export const ended = signal(false);
/** Why a person has to sign in again, where there is a reason. */
export const why = signal<string | null>(null);
/** The token of a link by which a member chooses a password, until that is done. */
export const choosing = signal<string | null>(null);

/** A token is exchanged when it has less than this to live. */
const MARGIN_MS = 60_000;
/** How often a node is asked for it that cannot do it now, as while the directory's lead moves: nobody is signed out by that. */
const BUSY_TRIES = 3;
/** The longest pause between two of them, in seconds. */
const BUSY_SECONDS = 2;

let token: SharedToken | null = null;

function claims(access: string): Who {
  const payload = access.split(".")[1] ?? "";
  const text = atob(payload.replaceAll("-", "+").replaceAll("_", "/"));
  const { email, role } = JSON.parse(new TextDecoder().decode(Uint8Array.from(text, (c) => c.charCodeAt(0))));
  return { email, role };
}

function take(next: SharedToken): void {
  token = next;
  simulatedPhones.value = next.simulatedPhones;
  const told = claims(next.access);
  ended.value = false;
  if (who.value?.email !== told.email || who.value.role !== told.role) who.value = told;
}

/** A call of the console's own, which needs no token. */
function ask<T = void>(method: "POST" | "PUT" | "DELETE", body?: unknown, path = "/console/session"): Promise<T> {
  // Goes on when the page is left meanwhile: the cookie of the answer must not be lost, as the one before it is used up.
  const init: RequestInit = { method, keepalive: true, credentials: "same-origin" };
  if (body !== undefined) {
    init.headers = { "content-type": "application/json" };
    init.body = JSON.stringify(body);
  }
  return request(path, init, async (response) => JSON.parse((await response.text()) || "null"));
}

interface Answer {
  access_token: string;
  expires_in: number;
  simulated_phones: boolean;
}

function tokenOf({ access_token, expires_in, simulated_phones }: Answer): SharedToken {
  return { access: access_token, until: Date.now() + expires_in * 1000, simulatedPhones: simulated_phones };
}

function accept(next: SharedToken): void {
  take(next);
  tell({ kind: "token", token: next });
}

function fresh(): boolean {
  return token !== null && token.until - Date.now() > MARGIN_MS;
}

/** Exchanges the refresh token, in one tab at a time; whoever waited for its turn uses what the other one got. */
async function refresh(link?: string): Promise<void> {
  await alone("refresh", async (waited) => {
    if (fresh() && link === undefined) return;
    // The turn may be given before the token has arrived that the other tab got.
    if (waited && link === undefined && (await fromOtherTab()) && fresh()) return;
    const body = link === undefined ? undefined : { refresh_token: link };
    for (let attempt = 1; ; attempt++) {
      try {
        return accept(tokenOf(await ask<Answer>("PUT", body)));
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        const isBusy = error.status === 503 && !error.unanswered;
        if (attempt > (isBusy ? BUSY_TRIES : error.unanswered ? 1 : 0)) throw error;
        if (isBusy) await wait(Math.min(error.retryAfter, BUSY_SECONDS) * 1_000);
      }
    }
  });
}

/** Asks the other tabs first: a refresh token works once, and pages are opened often. */
async function fromOtherTab(): Promise<boolean> {
  // One that reads the events is signed in, and may be slow to answer.
  const patience = (await isUnderWay("stream")) ? 1_000 : 120;
  const heard = new Promise<boolean>((done) => {
    const stop = listen((message) => {
      if (message.kind !== "token") return;
      stop();
      done(true);
    });
    setTimeout(() => {
      stop();
      done(false);
    }, patience);
  });
  tell({ kind: "want-token" });
  return heard;
}

function signedOut(reason: string | null): void {
  token = null;
  why.value = reason;
  ended.value = false;
  who.value = null;
}

/** The session is over, and nobody wanted that. */
function sessionEnded(reason: string | null): void {
  token = null;
  why.value = reason;
  if (who.value) ended.value = true;
  else who.value = null;
}

const members: Credentials = {
  async bearer() {
    if (!fresh()) {
      try {
        await refresh();
      } catch (error) {
        if (error instanceof Refused && error.status === 401) sessionEnded("Your session has ended. Sign in again.");
        throw error;
      }
    }
    return token?.access ?? "";
  },
  async renew(refused, bearer) {
    // The answer to a call from before this person signed in again.
    if (token && token.access !== bearer) return true;
    if (refused.code === "auth_revoked") {
      sessionEnded("This session was ended. Sign in again.");
      tell({ kind: "signed-out", why: why.value, of: bearer });
      return false;
    }
    token = null;
    return true;
  },
};

/** The fragment of a link that signs in once; it is taken out of the address at once. */
function takeLink(): string | undefined {
  const match = /^#sign-in=([\w-]+)$/.exec(location.hash);
  if (location.hash.startsWith("#sign-in=")) history.replaceState(null, "", location.pathname + location.search);
  return match?.[1];
}

/** The same for a link by which a member chooses a password. */
function takePasswordLink(): string | null {
  const match = /^#set-password=([\w-]+)$/.exec(location.hash);
  if (match) history.replaceState(null, "", location.pathname + location.search);
  return match?.[1] ?? null;
}

async function beginMembers(): Promise<void> {
  use(members);
  choosing.value = takePasswordLink();
  // A link to the very page that this tab shows loads nothing by itself.
  window.addEventListener("hashchange", () => /^#(sign-in|set-password)=/.test(location.hash) && location.reload());
  listen((message) => {
    if (message.kind === "token") take(message.token);
    if (message.kind === "want-token" && token && fresh()) tell({ kind: "token", token });
    // Another tab may have signed in again meanwhile, and this one with it.
    if (message.kind === "signed-out" && (message.of === null || !token || token.access === message.of)) {
      (message.of === null ? signedOut : sessionEnded)(message.why);
    }
  });
  const link = takeLink();
  // Another tab may be of a cluster that is gone, whose token opens nothing here; a link does.
  if (link === undefined && (await fromOtherTab())) return;
  try {
    await refresh();
    return;
  } catch (error) {
    // Nobody is signed in here; a link that was followed twice finds its session by the cookie, above.
    if (error instanceof Refused && error.unanswered) why.value = "The node did not answer. Try again.";
    else if (error instanceof Refused && [429, 503].includes(error.status)) why.value = "The node cannot check right now whether you are signed in. Reload the page in a moment.";
  }
  if (link === undefined) {
    who.value = null;
    return;
  }
  try {
    await refresh(link);
  } catch (error) {
    signedOut(
      error instanceof Refused && error.status === 401
        ? "This link has already been used. Sign in instead: the terminal that showed the link also names the address and the password file. Or start the cluster again to get a new link."
        : "This link could not be used. Sign in instead.",
    );
  }
}

export async function signIn(email: string, password: string): Promise<void> {
  accept(tokenOf(await ask("POST", { email, password })));
  why.value = null;
}

/** Has a message sent by which a member chooses another password. Says whether this deployment sends any. */
export async function askForReset(email: string): Promise<boolean> {
  try {
    await ask("POST", { email }, "/v1/auth/password/reset");
    return true;
  } catch (error) {
    if (error instanceof Refused && error.status === 404) return false;
    throw error;
  }
}

/** By the token of a link. */
export async function choosePassword(password: string): Promise<void> {
  await ask("PUT", { token: choosing.value, password }, "/v1/auth/password/reset");
  choosing.value = null;
  signedOut("The password is set. Sign in with it.");
}

/** All sessions end with the former password; this tab goes on with a new one. */
export async function changePassword(current_password: string, new_password: string): Promise<void> {
  const email = who.value?.email ?? "";
  await call("POST", "/v1/auth/password", { body: { current_password, new_password } });
  await signIn(email, new_password);
}

export async function signOutEverywhere(): Promise<void> {
  await call("DELETE", "/v1/account/sessions");
  await signOut();
}

/** Lets a phone of the simulated network scan a code; gives its number. */
export async function scanWithSimulatedPhone(raw: string): Promise<string> {
  const { number } = await ask<{ number: string }>("POST", { raw }, "/console/phones");
  return number;
}

// Operators.

const KEPT = "gateway-operator-token";
let operatorToken = "";

const operators: Credentials = {
  bearer: async () => operatorToken,
  async renew(_, bearer) {
    // The answer to a call from before another token was entered.
    if (bearer !== operatorToken) return operatorToken !== "";
    forgetToken();
    sessionEnded("The token is no longer accepted.");
    return false;
  },
};

function forgetToken(): void {
  operatorToken = "";
  sessionStorage.removeItem(KEPT);
}

export async function enterToken(text: string, keep: boolean): Promise<void> {
  // A browser calls nobody with another character in a header.
  if (!/^[!-~]*$/.test(text)) throw new Refused(401, "auth_invalid", "a token contains only ASCII letters, digits and punctuation", null, null, 0);
  operatorToken = text;
  use({ ...operators, renew: async () => false });
  let status: O["ClusterStatus"];
  try {
    status = await call("GET", "/v1/admin/status");
  } catch (error) {
    operatorToken = "";
    throw error;
  } finally {
    use(operators);
  }
  if (keep) sessionStorage.setItem(KEPT, text);
  why.value = null;
  ended.value = false;
  const told: Who = { email: status.operator ?? "operator", role: status.access === "read" ? "viewer" : "admin" };
  if (who.value?.email !== told.email || who.value.role !== told.role) who.value = told;
}

async function beginOperators(): Promise<void> {
  use(operators);
  const kept = sessionStorage.getItem(KEPT);
  if (kept === null) {
    who.value = null;
    return;
  }
  try {
    await enterToken(kept, false);
  } catch {
    forgetToken();
    signedOut(null);
  }
}

export function begin(): Promise<void> {
  return door === "members" ? beginMembers() : beginOperators();
}

export async function signOut(): Promise<void> {
  if (door === "operators") {
    forgetToken();
    signedOut(null);
    return;
  }
  await ask("DELETE");
  signedOut(null);
  tell({ kind: "signed-out", why: null, of: null });
}

/** Whether the role of the member, or of the operator's token, lets it change things; the server decides, the page only hides. */
export function may(what: "write" | "keys" | "account"): boolean {
  const role = who.value?.role;
  if (role === "owner" || role === "admin") return true;
  return what === "write" && role === "member";
}
