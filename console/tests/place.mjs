// What the tests of the console share: the cluster that the Rust test has started, a browser, and phones.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createConnection, createServer } from "node:net";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { test as testOfNode } from "node:test";
import { chromium } from "playwright-core";
import { ARGS } from "../chromium.mjs";

const HERE = dirname(fileURLToPath(import.meta.url));

export const place = JSON.parse(process.env.GATEWAY_PLACE);
export const node = (n = 0) => place.nodes[n % place.nodes.length];

/** For what the gateway does by itself, with the machine busy. */
export const PATIENCE = 60_000;
/** After so long without a connection a code is scanned once more. */
const AGAIN = 5_000;

const SHOTS = process.env.GATEWAY_SCREENSHOTS ?? join(HERE, "../../target/console-screenshots");
mkdirSync(SHOTS, { recursive: true });

const AXE = readFileSync(join(HERE, "../node_modules/axe-core/axe.min.js"), "utf8");

/** Pages and files of this folder instead of those in the binary, for whoever works on them. */
const FROM = process.env.GATEWAY_CONSOLE_FROM;

export async function launch() {
  // A page that the test itself gives comes from nowhere, and may not load from this machine otherwise.
  const args = FROM ? [...ARGS, "--disable-features=LocalNetworkAccessChecks"] : ARGS;
  return chromium.launch({ executablePath: place.chromium, args });
}

async function fromFiles(route) {
  const url = new URL(route.request().url());
  const isPage = route.request().resourceType() === "document";
  if (isPage) {
    const response = await route.fetch();
    const door = (await response.text()).includes("operators") ? "operators" : "members";
    const { "content-encoding": _, "content-length": __, ...headers } = response.headers();
    return route.fulfill({ status: 200, headers, body: readFileSync(join(FROM, `${door}.html`), "utf8") });
  }
  if (!url.pathname.startsWith("/console/assets/")) return route.fallback();
  return route.fulfill({ path: join(FROM, url.pathname.split("/").at(-1)) });
}

const openContexts = new Set();

/** A test that leaves pictures of what was open when it failed. */
export function test(name, ...given) {
  const work = given.pop();
  testOfNode(name, given[0] ?? {}, async () => {
    try {
      await work();
    } catch (error) {
      let number = 0;
      for (const page of [...openContexts].flatMap((context) => context.pages())) {
        const path = join(SHOTS, `failed-${name.replace(/[^a-z]+/gi, "-").slice(0, 60)}-${++number}.png`);
        await page.screenshot({ path, timeout: 5_000 }).then(() => console.log(`${page.url()}: ${path}`), () => undefined);
      }
      throw error;
    } finally {
      await Promise.all([...openContexts].map((context) => context.close()));
    }
  });
}

/** How access and refresh tokens, keys, links by which passwords are chosen and signing secrets begin. */
const SECRET = /eyJ|zrt_|zpk_|zpw_|whsec_/;

/** A person's browser: what it asked for, what it complained of and what it has kept is judged at the end. */
export async function person(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  context.setDefaultTimeout(PATIENCE);
  openContexts.add(context);
  context.on("close", () => openContexts.delete(context));
  const complaints = [];
  const foreign = [];
  const asked = [];
  context.on("request", (request) => {
    const url = new URL(request.url());
    asked.push(`${request.method()} ${url.pathname}`);
    if (url.protocol.startsWith("http") && url.hostname !== "127.0.0.1") foreign.push(request.url());
  });
  context.on("console", (message) => {
    // Answers that say no are the pages' to show; a browser notes each of them.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) complaints.push(message.text());
  });
  context.on("weberror", (error) => complaints.push(String(error.error())));
  if (FROM) await context.route(/\/console(\/|$|\?)/, fromFiles);
  const page = await context.newPage();
  return {
    context,
    page,
    asked,
    async leave() {
      for (const left of context.pages().filter((page) => page.url().startsWith("http") && options.javaScriptEnabled !== false)) {
        const kept = await left.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href, history.state]));
        assert.ok(!SECRET.test(kept) && !kept.includes(place.password) && !kept.includes(place.operatorToken), `nothing secret is kept: ${kept}`);
      }
      assert.deepEqual(foreign, [], "nothing comes from elsewhere");
      assert.deepEqual(complaints, [], "no error, and no report of the content policy");
      await context.close();
    },
  };
}

export async function signIn(page, email, at = node().api) {
  await page.goto(`${at}/console`);
  await page.getByLabel("E-mail address").fill(email);
  await page.getByLabel("Password").fill(place.password);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { level: 1, name: "Home" }).waitFor();
}

async function asJson(response) {
  const text = await response.text();
  assert.ok(response.ok, `${response.url}: ${response.status} ${text}`);
  return text === "" ? null : JSON.parse(text);
}

const send = (method, body, headers = {}) => ({ method, headers: { "content-type": "application/json", ...headers }, ...(body !== undefined && { body: JSON.stringify(body) }) });

/** The customer's program. */
export const api = (method, path, body, at = node()) => fetch(at.api + path, send(method, body, { authorization: `Bearer ${place.key}` })).then(asJson);
export const operator = (method, path, body) => fetch(node().ops + path, send(method, body, { authorization: `Bearer ${place.operatorToken}` })).then(asJson);
export const simulator = (method, path, body) => fetch(place.simulator + path, send(method, body)).then(asJson);

/** A balancer before a port of all nodes: each connection goes to the first node that takes it, in an order that may be changed. */
export async function balancer(port) {
  const open = new Set();
  let order = place.nodes;
  let serving = order[0];
  const connect = (client, n) => {
    if (n === order.length) return client.destroy();
    const chosen = order[n];
    const { hostname, port: at } = new URL(chosen[port]);
    const upstream = createConnection({ host: hostname, port: Number(at) }, () => {
      serving = chosen;
      client.pipe(upstream).pipe(client);
    });
    let connected = false;
    upstream.on("connect", () => (connected = true));
    upstream.on("error", () => (connected ? client.destroy() : connect(client, n + 1)));
    upstream.on("close", () => connected && client.destroy());
    client.on("close", () => upstream.destroy());
  };
  const server = createServer((client) => {
    open.add(client);
    client.on("error", () => undefined);
    client.on("close", () => open.delete(client));
    connect(client, 0);
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    /** The node that took the newest connection. */
    serving: () => serving,
    /** From now on the page is served by this node, as long as it can be. */
    prefer(first) {
      order = [first, ...place.nodes.filter(({ id }) => id !== first.id)];
      open.forEach((client) => client.destroy());
    },
    close() {
      server.close();
      open.forEach((client) => client.destroy());
    },
  };
}

/** Runs the gateway's own program; gives what it says. */
export const gateway = async (...args) => (await promisify(execFile)(place.gateway, args)).stdout;

/** When the customer's program hears of an event, by a stream of its own: `at` waits for it. */
export async function hears(name, fits = () => true) {
  const headers = { authorization: `Bearer ${place.key}`, accept: "text/event-stream" };
  const { body } = await fetch(`${node().api}/v1/events`, { headers });
  const look = async () => {
    let rest = "";
    for await (const part of body.pipeThrough(new TextDecoderStream())) {
      rest += part;
      for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
        const frame = rest.slice(0, end);
        rest = rest.slice(end + 2);
        const data = /^data: (.*)$/m.exec(frame)?.[1];
        if (frame.includes(`event: ${name}\n`) && data && fits(JSON.parse(data))) return Date.now();
      }
    }
    throw new Error(`the stream has ended without ${name}`);
  };
  return { at: look() };
}

/** When a page shows a heading, by its own clock: `at` waits for it. */
export async function shows(page, heading) {
  await page.evaluate((heading) => {
    window.shownAt = new Promise((done) => {
      const look = () => {
        if (![...document.querySelectorAll("h1, h2")].some(({ textContent }) => textContent === heading)) return;
        watch.disconnect();
        done(Date.now());
      };
      const watch = new MutationObserver(look);
      watch.observe(document.body, { childList: true, subtree: true, characterData: true });
      look();
    });
  }, heading);
  return { at: () => page.evaluate(() => window.shownAt) };
}

/** Where there is one try alone, or other tests are on the same cores. */
export const LATE = 5_000;
const ALL_VIEWS = process.env.GATEWAY_CONSOLE_VIEWS === "all";
/** From an event to a page that shows it, and from a call to what is drawn of its answer: a second where these tests run alone. */
const SOON = ALL_VIEWS ? 1_000 : LATE;
/** The quickest of so many counts: whatever else is tried on these cores may hold up any of them. */
const TRIES = 4;

/** The quickest of a few tries, by what `measure` says of each, is below a bound. */
export async function below(what, bound, measure) {
  const took = [];
  while (took.length < TRIES) {
    took.push(await measure(took.length));
    if (took.at(-1) < bound) return;
  }
  assert.fail(`${what} took ${took.join(", ")}, not below ${bound}`);
}

/** Something takes no longer than that, in milliseconds that `measure` gives of each try. */
export const soon = (what, measure) => below(what, SOON, measure);

export const kill = ({ id }) => gateway("dev", "stop", String(id), "--kill", `--data=${place.data}`);
export const restart = ({ id }) => gateway("dev", "start", String(id), "--wait", `--data=${place.data}`);

/** Goes from one control to the next by the Tab key until it is at this one. */
export async function reach(page, control) {
  let element;
  for (let steps = 0; steps < 400; steps++) {
    // To look for it by its name at each step costs more than the rest: only where the page may have drawn another one.
    if (steps % 50 === 0 || !element) element = await control.elementHandle({ timeout: PATIENCE });
    const state = await element.evaluate((element) => (element === document.activeElement ? "focused" : element.isConnected ? "there" : "gone")).catch(() => "gone");
    if (state === "there") await page.keyboard.press("Tab");
    else if (state === "gone") element = undefined;
    else if (await control.evaluate((element) => element === document.activeElement, undefined, { timeout: PATIENCE })) return;
    else element = undefined;
  }
  assert.fail(`the Tab key does not lead to ${control}`);
}

/** On the way back by the Tab key, too, from the last of some controls on, nothing that has the focus lies below the bar at the top. */
export async function nothingIsCovered(page, controls) {
  await page.evaluate((controls) => [...document.querySelectorAll(controls)].at(-1).focus(), controls);
  for (let steps = 0; steps < 100; steps++) {
    const covered = await page.evaluate(() => {
      const at = document.activeElement;
      if (!document.querySelector("main").contains(at)) return undefined;
      const bar = document.querySelector("header").getBoundingClientRect();
      return at.getBoundingClientRect().bottom <= bar.bottom ? at.outerHTML.slice(0, 120) : "";
    });
    if (covered === undefined) return;
    assert.equal(covered, "", "covered by the bar");
    await page.keyboard.press("Shift+Tab");
  }
}

export async function phone(number, name = "Ann") {
  await simulator("POST", "/phones", { number, name });
  return number;
}

/** Scans the code that a channel shows now. */
export async function scan(channel, number, at = node()) {
  const { raw } = await api("GET", `/v1/channels/${channel}/qr?format=raw`, undefined, at);
  await simulator("POST", `/phones/${number}/link`, { raw });
}

export async function eventually(what, look, within = PATIENCE) {
  const deadline = Date.now() + within;
  for (;;) {
    let last;
    try {
      const found = await look();
      if (found) return found;
    } catch (error) {
      last = error;
    }
    if (Date.now() > deadline) throw new Error(`not within ${within} ms: ${what}${last ? ` (${last})` : ""}`);
    await new Promise((wait) => setTimeout(wait, 50));
  }
}

/** A connected channel of a phone of its own. */
export async function paired(name, number) {
  const { id } = await api("POST", "/v1/channels", { name });
  await phone(number, name);
  const scanned = () =>
    eventually(`${name} is scanned`, async () => {
      await scan(id, number);
      return true;
    });
  await scanned();
  let since = Date.now();
  await eventually(`${name} is connected`, async () => {
    const { status } = await api("GET", `/v1/channels/${id}`);
    // Its owner may have changed just then, and there is another code.
    if (status === "qr" && Date.now() - since > AGAIN) {
      await scanned();
      since = Date.now();
    }
    return status === "connected";
  });
  return id;
}

/** Waits until a page shows what it has loaded. */
export async function settled(page) {
  await page.waitForFunction(() => document.querySelector("main h1, main") && !document.querySelector("[aria-busy=true]"));
}

/** Each page is judged at both widths and in both colours: in two views of these four, in turn the first and the last, or in all of them. */
const VIEWS = [[1280, "light"], [360, "dark"], [1280, "dark"], [360, "light"]];
let judged = 0;

function views() {
  if (ALL_VIEWS) return VIEWS;
  return judged++ % 2 === 0 ? VIEWS.slice(0, 2) : VIEWS.slice(2);
}

/** Whether everybody can use the page as it is, by axe; and where all views are wanted, a picture of each. */
export async function judge(page, name) {
  const client = await page.context().newCDPSession(page);
  // In a world of its own, which the page's content policy does not reach.
  const { frameTree } = await client.send("Page.getFrameTree");
  const { executionContextId } = await client.send("Page.createIsolatedWorld", { frameId: frameTree.frame.id, worldName: "axe" });
  const evaluate = (expression) => client.send("Runtime.evaluate", { expression, contextId: executionContextId, awaitPromise: true, returnByValue: true });
  await evaluate(`${AXE}; undefined`);
  for (const [width, theme] of views()) {
    await page.setViewportSize({ width, height: 800 });
    await page.emulateMedia({ colorScheme: theme });
    await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
    if (ALL_VIEWS) {
      const { data } = await client.send("Page.captureScreenshot", { format: "webp", quality: 80 });
      writeFileSync(join(SHOTS, `${name}-${theme}-${width}.webp`), Buffer.from(data, "base64"));
    }
    const { result, exceptionDetails } = await evaluate(
      `axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] }).then(({ violations }) =>
        violations.map(({ id, nodes }) => id + ": " + nodes.map((node) => node.html + " " + node.failureSummary).join("; ")))`,
    );
    assert.equal(exceptionDetails, undefined, `axe on ${name}: ${exceptionDetails?.exception?.description}`);
    assert.deepEqual(result.value, [], `${name}, ${theme}, ${width}`);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.ok(wide <= 1, `${name} at ${width} is ${wide} pixels too wide`);
  }
  await client.detach();
  await page.setViewportSize({ width: 1280, height: 800 });
}
