// Measures what the console's specification allows a page that stands open: the processor of each page at rest, and the memory of the
// Events page after an hour of 200 events a second. It starts a cluster of its own and needs no arguments; `--help` lists those there
// are. Ends with 1 when something is beyond its budget, with 2 when it could not measure.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as wait } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { chromium } from "playwright-core";
import { ARGS } from "./chromium.mjs";

const HELP = `Usage: node console/measure.mjs [OPTIONS]

What is measured:
  --part PART       rest, events or both [default: both]
  --seconds N       how long each page is watched at rest [default: 20]
  --minutes N       how long the Events page is watched [default: 60]
  --rate N          events a second [default: 200]

Of which cluster [default: one of its own, of one node, in a temporary folder]:
  --data DIR        the folder of a running cluster of gateway dev
  --url URL         where members reach a running cluster, with what follows
  --simulator URL   where its simulator is driven
  --key KEY         an API key
  --link LINK       a link that signs in, as gateway dev prints it, or
  --email ADDRESS   a member's address, with the password in GATEWAY_PASSWORD
  --ops URL         its operators' port, with the token in GATEWAY_OPERATOR_TOKEN [default: the
                    operators' pages are left out]`;

function options() {
  const named = ["part", "seconds", "minutes", "rate", "data", "url", "simulator", "key", "link", "email", "ops"].map((name) => [name, { type: "string" }]);
  try {
    return parseArgs({ options: { ...Object.fromEntries(named), help: { type: "boolean" } } }).values;
  } catch (error) {
    console.error(`${error.message}\n\n${HELP}`);
    process.exit(2);
  }
}

const given = options();

const PART = given.part ?? "both";
const SECONDS = Number(given.seconds ?? 20);
const MINUTES = Number(given.minutes ?? 60);
const RATE = Number(given.rate ?? 200);

// The budgets of the specification, section 8.
/** Of a processor, in milliseconds a second: what all pages take of the nodes on average. */
const PROCESSOR = 1;
/** The same of the browser's main thread, of which the specification says nothing: a time that counts seconds takes two to three. */
const BROWSER = 5;
/** Requests a second of a page at rest. */
const REQUESTS = 0.5;
const HEAP = 100 * 1024 * 1024;
const ROWS = 200;

/** Beside events, clocks of the page are drawn anew each second. */
const DRAWS_OF_CLOCKS = 5;
/** Below that part of the rate too few events were made for a judgement. */
const ENOUGH = 0.9;

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..");
const GATEWAY = process.env.GATEWAY_BIN ?? join(ROOT, "target/debug/gateway");
const CHROMIUM = "/usr/bin/chromium";

/** For what the gateway and the browser do by themselves. */
const PATIENCE = 120_000;
/** Channels among which the events are shared, so that no shard has all of them. */
const CHANNELS = 4;
/** Events are made so often. */
const TICK_MS = 100;
/** Calls of the simulator under way at once, and the most messages that one of them makes. */
const IN_FLIGHT = 20;
const MOST_AT_ONCE = 1_000;
/** Times that are younger than a minute are drawn each second: what was made for the measurement grows older first. */
const SETTLING_MS = 65_000;
/** A page is quiet when it asked for nothing for so long. */
const QUIET_MS = 1_000;
/** Without a page, the nodes are watched for so many times as long as one page. */
const IDLE_SLICES = 4;
/** Of a count of processor time under /proc. */
const MS_A_TICK = 10;

const failures = [];

function judge(isWithin, what) {
  if (isWithin) return;
  failures.push(what);
  console.log(`  beyond the budget: ${what}`);
}

async function eventually(what, look) {
  const deadline = Date.now() + PATIENCE;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > deadline) throw new Error(`not within ${PATIENCE / 1_000} s: ${what}`);
    await wait(500);
  }
}

// The cluster.

const read = (path) => JSON.parse(readFileSync(path, "utf8"));

/** A cluster by the folder of `gateway dev`. */
function described(folder) {
  const { simulator, nodes, api_key, operator_token } = read(join(folder, "dev.json"));
  return { url: nodes[0].api, ops: nodes[0].ops, simulator, key: api_key, operatorToken: operator_token, pids: nodes.map(({ pid }) => pid) };
}

/** A cluster of its own; adds to `ends` how it is ended. */
async function started(ends) {
  if (!existsSync(GATEWAY)) throw new Error(`no ${GATEWAY}: build it (cargo build --package node), or name another one in GATEWAY_BIN`);
  const folder = mkdtempSync(join(tmpdir(), "gateway-console-"));
  const data = join(folder, "dev");
  const base = 10_000 + 300 * Math.floor(Math.random() * 70);
  const limits = ["ip", "customer", "channel"].flatMap((of) => [`--${of}-burst=1000000`, `--${of}-refill=1000000`]);
  const child = spawn(GATEWAY, ["dev", "--nodes=1", `--data=${data}`, `--base-port=${base}`, ...limits], { stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise((done) => child.once("exit", done).once("error", done));
  ends.push(async () => {
    child.kill("SIGINT");
    await ended;
    rmSync(folder, { recursive: true, force: true });
  });
  const link = new Promise((done, fail) => {
    // Read to its end: a full pipe would hold the cluster up.
    createInterface({ input: child.stdout }).on("line", (line) => line.includes("#sign-in=") && done(line.trim()));
    void ended.then(() => fail(new Error("gateway dev has ended without a link that signs in")));
  });
  const signIn = await link;
  return { ...described(data), link: signIn };
}

async function found(ends) {
  if (given.url) {
    const { url, simulator, key, link, email, ops } = given;
    if (!simulator || !key || !(link || email)) throw new Error("--url wants --simulator, --key, and --link or --email");
    return { url, simulator, key, link, email, password: process.env.GATEWAY_PASSWORD ?? "", ops, operatorToken: process.env.GATEWAY_OPERATOR_TOKEN ?? "", pids: [] };
  }
  if (given.data) {
    const { email, password } = read(join(given.data, "member.json"));
    return { ...described(given.data), email, password };
  }
  return started(ends);
}

async function call(method, url, body, key) {
  const headers = { "content-type": "application/json", ...(key && { authorization: `Bearer ${key}` }) };
  const response = await fetch(url, { method, headers, ...(body && { body: JSON.stringify(body) }) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${url}: ${response.status} ${text}`);
  return text === "" ? null : JSON.parse(text);
}

const api = (cluster, method, path, body) => call(method, cluster.url + path, body, cluster.key);
const simulator = (cluster, method, path, body) => call(method, cluster.simulator + path, body);

/** A number that belongs to nobody. */
const number = () => `1555${String(Math.floor(Math.random() * 10_000_000)).padStart(7, "0")}`;

/** Channels that are connected, each by a phone of its own. */
async function paired(cluster) {
  const channels = [];
  for (let n = 1; n <= CHANNELS; n++) {
    const { id } = await api(cluster, "POST", "/v1/channels", { name: `Measured ${n}` });
    const own = number();
    channels.push({ id, own });
    await simulator(cluster, "POST", "/phones", { number: own, name: `Measured ${n}` });
    const { raw } = await api(cluster, "GET", `/v1/channels/${id}/qr?format=raw`);
    await simulator(cluster, "POST", `/phones/${own}/link`, { raw });
  }
  for (const { id } of channels) await eventually("a channel is connected", async () => (await api(cluster, "GET", `/v1/channels/${id}`)).status === "connected");
  return channels;
}

/** What the nodes have taken of a processor, in milliseconds. */
function ofNodes({ pids }) {
  const taken = pids.map((pid) => {
    // Behind the program's name, which may hold spaces: the twelfth and the thirteenth are the times of the process and of the kernel for it.
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1).split(" ");
    return (Number(fields[11]) + Number(fields[12])) * MS_A_TICK;
  });
  return taken.reduce((sum, one) => sum + one, 0);
}

// The browser.

async function signedIn(browser, cluster) {
  const page = await (await browser.newContext({ viewport: { width: 1280, height: 800 }, ignoreHTTPSErrors: true })).newPage();
  page.setDefaultTimeout(PATIENCE);
  if (cluster.link) {
    await page.goto(cluster.link);
  } else {
    await page.goto(`${cluster.url}/console`);
    await page.getByLabel("E-mail address").fill(cluster.email);
    await page.getByLabel("Password").fill(cluster.password);
    await page.getByRole("button", { name: "Sign in" }).click();
  }
  await page.getByText("Live updates are on.").waitFor({ state: "attached" });
  return page;
}

async function signedInAsOperator(browser, cluster) {
  const page = await (await browser.newContext({ viewport: { width: 1280, height: 800 }, ignoreHTTPSErrors: true })).newPage();
  page.setDefaultTimeout(PATIENCE);
  await page.goto(`${cluster.ops}/console`);
  await page.getByLabel("Operator token").fill(cluster.operatorToken);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("navigation", { name: "Pages" }).waitFor({ state: "attached" });
  return page;
}

/** Goes to another page of the console without loading it anew. */
const go = (page, to) =>
  page.evaluate((to) => {
    history.pushState(null, "", to);
    dispatchEvent(new PopStateEvent("popstate"));
  }, to);

/** Counts the requests of a page; says when the last one began or ended. */
function requestsOf(page) {
  const counted = { count: 0, last: Date.now() };
  page.on("request", () => {
    counted.count++;
    counted.last = Date.now();
  });
  for (const end of ["requestfinished", "requestfailed"]) page.on(end, () => (counted.last = Date.now()));
  return counted;
}

/** Metrics of a page: times are those of its main thread's processor, in seconds. */
async function meterOf(page) {
  const client = await page.context().newCDPSession(page);
  await client.send("Performance.enable", { timeDomain: "threadTicks" });
  return {
    client,
    metrics: async () => Object.fromEntries((await client.send("Performance.getMetrics")).metrics.map(({ name, value }) => [name, value])),
  };
}

// At rest.

const perSecond = (count, ms) => count / (ms / 1_000);
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
/** Of a mean of some values, by how they differ. */
const standardError = (values) => Math.sqrt(mean(values.map((value) => (value - mean(values)) ** 2)) / Math.max(1, values.length - 1));

/** What the nodes take while nobody has a page open, in milliseconds a second. */
async function idle(cluster) {
  const slices = [];
  for (let n = 0; n < IDLE_SLICES && cluster.pids.length > 0; n++) {
    const [before, began] = [ofNodes(cluster), performance.now()];
    await wait(SECONDS * 1_000);
    slices.push(perSecond(ofNodes(cluster) - before, performance.now() - began));
  }
  return slices;
}

/** Watches each of some pages at rest; gives what the nodes took meanwhile, in milliseconds a second. */
async function watch(cluster, page, door, places) {
  const ofNode = [];
  const requests = requestsOf(page);
  const { client, metrics } = await meterOf(page);
  for (const place of places) {
    await go(page, `/console${place}`);
    await eventually(`${place} is quiet`, async () => {
      const isLoaded = await page.evaluate(() => document.querySelector("main h1") !== null && !document.querySelector("[aria-busy=true]"));
      return isLoaded && Date.now() - requests.last > QUIET_MS;
    });
    const [before, asked, node, began] = [await metrics(), requests.count, ofNodes(cluster), performance.now()];
    await wait(SECONDS * 1_000);
    const after = await metrics();
    const took = performance.now() - began;
    const task = perSecond((after.TaskDuration - before.TaskDuration) * 1_000, took);
    const script = perSecond((after.ScriptDuration - before.ScriptDuration) * 1_000, took);
    const calls = perSecond(requests.count - asked, took);
    const nodes = perSecond(ofNodes(cluster) - node, took);
    ofNode.push(nodes);
    const name = `${door}${place === "" ? " (first page)" : place.replace(/id=[^&]*/, "id=...")}`;
    console.log(`${name.padEnd(52)} ${task.toFixed(2).padStart(6)} ms/s, scripts ${script.toFixed(2)}, ${calls.toFixed(2)} requests/s${cluster.pids.length > 0 ? `, nodes ${nodes.toFixed(1)} ms/s` : ""}`);
    judge(task <= BROWSER, `${name} takes ${task.toFixed(2)} ms of the browser's processor a second at rest, of ${BROWSER}`);
    judge(calls < REQUESTS, `${name} makes ${calls.toFixed(2)} requests a second at rest, of ${REQUESTS}`);
  }
  await client.detach();
  return ofNode;
}

async function atRest(browser, cluster, [channel]) {
  const endpoint = await api(cluster, "POST", "/v1/webhook-endpoints", { url: "http://127.0.0.1:8080/nobody", events: ["order.placed"] });
  try {
    const friend = number();
    await simulator(cluster, "POST", "/phones", { number: friend, name: "Ann" });
    await simulator(cluster, "POST", `/phones/${friend}/messages`, { to: channel.own, type: "text", text: "Hello", count: 20 });
    const of = (tab) => `/channel?id=${channel.id}&tab=${tab}`;
    const members = ["", "/channels", of("pairing"), of("chats"), `${of("chats")}&chat=${friend}`, of("messages"), of("status"), of("settings"), "/webhooks", `/webhooks?id=${endpoint.id}`, "/deliveries", "/events", "/keys", "/usage", "/members", "/audit", "/support", "/account"];
    const operators = ["", "/nodes", "/shards", "/layout", "/timeline", "/customers", "/channels", "/webhooks", "/trace", "/tickets", "/backup", "/secrets", "/releases", "/audit"];
    console.log(`each page at rest, for ${SECONDS} s`);
    const without = await idle(cluster);
    const page = await signedIn(browser, cluster);
    await wait(SETTLING_MS);
    const withPage = await watch(cluster, page, "members", members);
    await page.context().close();
    if (cluster.ops) {
      const page = await signedInAsOperator(browser, cluster);
      withPage.push(...(await watch(cluster, page, "operators", operators)));
      await page.context().close();
    }
    if (without.length === 0) return;
    without.push(...(await idle(cluster)));
    const more = mean(withPage) - mean(without);
    // Nodes have work of their own, which differs from one time to the next: only what is beyond that is the pages'.
    const noise = 2 * Math.hypot(standardError(withPage), standardError(without));
    console.log(`the nodes take ${mean(without).toFixed(1)} ms/s without a page, and ${more.toFixed(1)} more with one, give or take ${noise.toFixed(1)}`);
    judge(more - noise <= PROCESSOR, `an open page takes ${more.toFixed(1)} ms of the nodes' processor a second, of ${PROCESSOR}`);
  } finally {
    await api(cluster, "DELETE", `/v1/webhook-endpoints/${endpoint.id}`);
  }
}

// Many events.

/** Has a phone write to the channels, so many messages a second in all, until it is stopped. */
async function write(cluster, channels, rate, stop) {
  const friend = number();
  await simulator(cluster, "POST", "/phones", { number: friend, name: "Ann" });
  const began = performance.now();
  const underWay = new Set();
  let made = 0;
  let failed;
  for (let turn = 0; !stop.aborted && !failed; turn++) {
    const due = Math.min(MOST_AT_ONCE, Math.floor(((performance.now() - began) / 1_000) * rate) - made);
    if (due > 0 && underWay.size < IN_FLIGHT) {
      made += due;
      const { own } = channels[turn % channels.length];
      const one = simulator(cluster, "POST", `/phones/${friend}/messages`, { to: own, type: "text", text: "x".repeat(200), count: due })
        .catch((error) => (failed = error))
        .finally(() => underWay.delete(one));
      underWay.add(one);
    }
    await wait(TICK_MS);
  }
  await Promise.all(underWay);
  if (failed) throw failed;
}

/** The events that a browser's tabs hear of, counted beside the page that is measured. */
async function counterOf(page, cluster) {
  const counter = await page.context().newPage();
  await counter.goto(`${cluster.url}/console/licences.txt`);
  await counter.evaluate(() => {
    window.heard = 0;
    new BroadcastChannel("gateway-console-members").onmessage = ({ data }) => data.kind === "event" && window.heard++;
  });
  // The page that is measured is the one that is seen: a hidden one draws nothing.
  await page.bringToFront();
  return () => counter.evaluate(() => window.heard);
}

const mebibytes = (bytes) => (bytes / 1024 / 1024).toFixed(1);

async function manyEvents(browser, cluster, channels) {
  const page = await signedIn(browser, cluster);
  await go(page, "/console/events");
  await page.getByRole("heading", { level: 1, name: "Events" }).waitFor();
  const heard = await counterOf(page, cluster);
  const { client, metrics } = await meterOf(page);
  await page.evaluate(() => {
    window.draws = 0;
    window.frames = 0;
    new MutationObserver(() => window.draws++).observe(document.querySelector("main"), { childList: true, subtree: true });
    const count = () => {
      window.frames++;
      requestAnimationFrame(count);
    };
    requestAnimationFrame(count);
  });
  const sample = async () => {
    await client.send("HeapProfiler.collectGarbage");
    const { usedSize, embedderHeapUsedSize = 0, backingStorageSize = 0 } = await client.send("Runtime.getHeapUsage");
    const drawn = await page.evaluate(() => ({ rows: document.querySelectorAll("main tbody tr").length, draws: window.draws, frames: window.frames }));
    const { Nodes: nodes, TaskDuration: task } = await metrics();
    return { at: performance.now(), heap: usedSize + embedderHeapUsedSize + backingStorageSize, scripts: usedSize, nodes, task, heard: await heard(), ...drawn };
  };
  console.log(`the Events page at ${RATE} events a second, for ${MINUTES} minutes`);
  const stop = new AbortController();
  let broken;
  const writing = write(cluster, channels, RATE, stop.signal).catch((error) => (broken = error));
  try {
    let before = await sample();
    for (let minute = 1; minute <= MINUTES && !broken; minute++) {
      await wait(60_000);
      const now = await sample();
      const seconds = (now.at - before.at) / 1_000;
      const [rate, draws, frames] = [(now.heard - before.heard) / seconds, now.draws - before.draws, now.frames - before.frames];
      console.log(
        `minute ${minute}: ${mebibytes(now.heap)} MiB (${mebibytes(now.scripts)} of scripts), ${now.nodes} nodes, ${now.rows} rows, ${now.heard} events seen, ${rate.toFixed(0)} a second, ` +
          `${draws} draws in ${frames} frames, ${(((now.task - before.task) / seconds) * 100).toFixed(0)} % of a processor`,
      );
      judge(now.heap < HEAP, `the Events page takes ${mebibytes(now.heap)} MiB after ${minute} minutes, of ${mebibytes(HEAP)}`);
      judge(now.rows <= ROWS, `the Events page has ${now.rows} rows, of ${ROWS}`);
      judge(draws <= frames + DRAWS_OF_CLOCKS * seconds, `the Events page was drawn ${draws} times in ${frames} frames`);
      judge(rate >= ENOUGH * RATE, `the page has seen ${rate.toFixed(0)} events a second, of ${RATE}`);
      before = now;
    }
  } finally {
    stop.abort();
    await writing;
  }
  if (broken) throw broken;
  await page.context().close();
}

async function measure() {
  const isKnown = ["rest", "events", "both"].includes(PART);
  if (!isKnown || [SECONDS, MINUTES, RATE].some((value) => !Number.isInteger(value) || value < 1)) throw new Error(HELP);
  if (!existsSync(CHROMIUM)) throw new Error(`no ${CHROMIUM}: make to-test installs it`);
  const ends = [];
  const end = async () => {
    for (let one = ends.pop(); one; one = ends.pop()) await one().catch((error) => console.error(String(error)));
  };
  for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => void end().then(() => process.exit(2)));
  try {
    const cluster = await found(ends);
    const browser = await chromium.launch({ executablePath: CHROMIUM, args: ARGS, handleSIGINT: false, handleSIGTERM: false });
    ends.push(() => browser.close());
    const channels = await paired(cluster);
    ends.push(() => Promise.all(channels.map(({ id }) => api(cluster, "DELETE", `/v1/channels/${id}`))));
    if (PART !== "events") await atRest(browser, cluster, channels);
    if (PART !== "rest") await manyEvents(browser, cluster, channels);
  } finally {
    await end();
  }
}

if (given.help) {
  console.log(HELP);
} else {
  try {
    await measure();
    process.exitCode = failures.length > 0 ? 1 : 0;
  } catch (error) {
    console.error(error.message ?? String(error));
    process.exitCode = 2;
  }
  for (const failure of failures) console.error(`beyond the budget: ${failure}`);
}
