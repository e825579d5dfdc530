// What section 8 of the console's specification allows: slow networks, lists and conversations of thousands, many events, and what is loaded at all.
import assert from "node:assert/strict";
import { after, before } from "node:test";
import { eventually, launch, node, person, place, settled, signIn, test } from "./place.mjs";

let browser;
before(async () => (browser = await launch()));
after(() => browser?.close());

/** The preset *Slow 3G* of browsers: milliseconds before each answer, and bytes a second. */
const SLOW = { offline: false, latency: 2_000, downloadThroughput: 50_000, uploadThroughput: 50_000 };
const FIRST_PAINT = 2_500;

const SCRIPTS = 60_000;
const STYLES = 12_000;
const MOST_ROWS = 200;
/** Seconds of the processor; a tenth on a quiet machine, and more beside whatever else is tried on these cores. */
const PAGE_CHANGE = 0.4;
const FRAMES = 60;
const RATE = 200;
const EVENTS_SECONDS = 15;
const HEAP = 100 * 1024 * 1024;

/** What a page has taken of a processor, in seconds. */
async function meter(page) {
  const client = await page.context().newCDPSession(page);
  await client.send("Performance.enable", { timeDomain: "threadTicks" });
  return {
    client,
    processor: async () => (await client.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration").value,
  };
}

for (const door of ["api", "ops"]) {
  test(`over a slow network something is drawn as soon as the page has come, and little is loaded (${door})`, async () => {
    const { page, leave } = await person(browser);
    const sizes = { script: 0, stylesheet: 0, other: 0 };
    page.on("requestfinished", async (request) => {
      const kind = request.resourceType() in sizes ? request.resourceType() : "other";
      sizes[kind] += (await request.sizes()).responseBodySize;
    });
    const { client } = await meter(page);
    await client.send("Network.enable");
    await client.send("Network.emulateNetworkConditions", SLOW);
    await page.goto(`${node()[door]}/console`);
    const { painted, came, others } = await page.evaluate(async () => ({
      painted: await new Promise((done) => new PerformanceObserver((list) => done(list.getEntries()[0].startTime)).observe({ type: "paint", buffered: true })),
      came: performance.getEntriesByType("navigation")[0].responseEnd,
      others: Math.min(...performance.getEntriesByType("resource").map(({ responseEnd }) => responseEnd)),
    }));
    // The rest of the time is the machine's, which other tests keep busy: nothing else was waited for.
    assert.ok(came < FIRST_PAINT, `the page came after ${came} ms`);
    assert.ok(painted < others, `the first paint came after ${painted} ms, and what it could have waited for after ${others} ms`);
    await page.getByRole("button", { name: "Sign in" }).waitFor();
    assert.equal(await page.getByText("Loading", { exact: true }).count(), 0, "the word goes when the page is there");
    await eventually("what was loaded is counted", () => sizes.script > 0 && sizes.stylesheet > 0);
    assert.ok(sizes.script < SCRIPTS, `${sizes.script} bytes of scripts`);
    assert.ok(sizes.stylesheet < STYLES, `${sizes.stylesheet} bytes of styles`);
    await leave();
  });
}

test("ten thousand channels are read a page at a time, and scrolled without a pause", async () => {
  const { page, leave } = await person(browser);
  const ALL = 10_000;
  const channel = (n) => ({
    id: `0198c6a2-0d3b-7a57-a1f0-${String(n).padStart(12, "0")}`, customer_id: "0198c6a2-0d3b-7a57-a1f0-5a5e9d7c6b00", name: `Channel ${n}`, phone_number: `4915${String(n).padStart(8, "0")}`,
    status: ["connected", "reconnecting", "logged_out"][n % 3], status_reason: "network", last_seen_at: "2026-01-01T00:00:00.000Z", metadata: {}, created_at: "2026-01-01T00:00:00.000Z", updated_at: "2026-01-01T00:00:00.000Z",
  });
  await signIn(page, place.owner);
  await page.route(/\/v1\/channels\?/, (route) => {
    const query = new URL(route.request().url()).searchParams;
    const from = Number(query.get("cursor") ?? 0);
    const limit = Number(query.get("limit"));
    const to = Math.min(ALL, from + limit);
    return route.fulfill({ json: { data: [...Array(to - from)].map((_, n) => channel(from + n)), next_cursor: to < ALL ? String(to) : null } });
  });
  const { processor } = await meter(page);
  await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Channels", exact: true }).click();
  const rows = page.getByRole("table", { name: "Channels" }).locator("tbody tr");
  await eventually("a page is shown", async () => (await rows.count()) === 100);
  for (let turn = 1; turn <= 10; turn++) {
    await page.getByRole("button", { name: "Next" }).click();
    await page.getByText(`Channel ${turn * 100}`, { exact: true }).waitFor();
    assert.ok((await rows.count()) <= MOST_ROWS, `${await rows.count()} rows`);
  }
  const before = await processor();
  await page.evaluate(
    (frames) =>
      new Promise((done) => {
        const height = document.documentElement.scrollHeight - innerHeight;
        let frame = 0;
        const step = () => {
          window.scrollTo(0, (height * frame) / frames);
          if (frame++ < frames) requestAnimationFrame(step);
          else done();
        };
        step();
      }),
    FRAMES,
  );
  const taken = (await processor()) - before;
  assert.ok(taken < FRAMES / 60, `${FRAMES} frames took ${taken} s of the processor`);
  await leave();
});

test("a month of five hundred channels keeps few rows, and fewer days can be asked for", async () => {
  const { page, leave } = await person(browser);
  const [CHANNELS, DAYS] = [500, 30];
  const used = (n) => ({
    channel_id: `0198c6a2-0d3b-7a57-a1f0-${String(n % CHANNELS).padStart(12, "0")}`, date: `2026-01-${String(1 + Math.floor(n / CHANNELS)).padStart(2, "0")}`, hour: null, sent: 2, received: 1, failed: 0, media_bytes: 0, webhook_deliveries: 3,
  });
  await page.route(/\/v1\/account\/usage\?/, (route) => route.fulfill({ json: { data: [...Array(CHANNELS * DAYS)].map((_, n) => used(n)), next_cursor: null } }));
  await signIn(page, place.owner);
  await page.goto(`${node().api}/console/usage?by=channel`);
  const rows = page.getByRole("table", { name: /^Usage by channel/ }).locator("tbody tr");
  await eventually("a page is shown", async () => (await rows.count()) === MOST_ROWS);
  await page.getByText("30,000", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Next" }).click();
  await page.getByText("Page 2", { exact: true }).first().waitFor();
  assert.equal(await rows.count(), MOST_ROWS);
  const asked = page.waitForRequest(/group_by=channel&from=\d{4}-\d\d-\d\d$/);
  await page.getByLabel("By", { exact: true }).selectOption("day and channel, 7 days");
  await asked;
  await page.getByText("Page 1", { exact: true }).first().waitFor();
  await leave();
});

test("a conversation of five thousand messages keeps few rows, and each step back is quick", async () => {
  const { page, leave } = await person(browser);
  const ALL = 5_000;
  const message = (n) => ({
    id: `row-${n}`, channel_id: "c", message_id: `M${n}`, chat_id: "4915000@s.whatsapp.net", direction: n % 2 ? "inbound" : "outbound", type: "text", status: n % 2 ? "received" : "read", from: "4915000@s.whatsapp.net", to: "4915001@s.whatsapp.net",
    text: `line ${n}.`, occurred_at: "2026-01-01T00:00:00.000Z", is_group: false, media: null, error: null, quoted_message_id: null, participant: null, push_name: "Ann", emoji: null, webhook_deliveries: [],
  });
  await signIn(page, place.owner);
  const channel = { id: "0198c6a2-0d3b-7a57-a1f0-000000000001", customer_id: "0198c6a2-0d3b-7a57-a1f0-5a5e9d7c6b00", name: "Long", phone_number: "4915001", status: "connected", last_seen_at: null, metadata: {}, created_at: "2026-01-01T00:00:00.000Z", updated_at: "2026-01-01T00:00:00.000Z" };
  await page.route(/\/v1\/channels\/0198/, (route) => {
    const { pathname, searchParams } = new URL(route.request().url());
    if (pathname.endsWith("/chats")) return route.fulfill({ json: { data: [], next_cursor: null } });
    if (!pathname.endsWith("/messages")) return pathname.endsWith("/read") ? route.fulfill({ status: 204 }) : route.fulfill({ json: channel });
    const from = Number(searchParams.get("cursor") ?? ALL);
    const to = Math.max(0, from - Number(searchParams.get("limit")));
    return route.fulfill({ json: { data: [...Array(from - to)].map((_, n) => message(from - 1 - n)), next_cursor: to > 0 ? String(to) : null } });
  });
  await page.goto(`${node().api}/console/channel?id=${channel.id}&tab=chats&chat=4915000`);
  const messages = page.getByRole("list", { name: "Messages, the newest last" });
  await messages.getByText(`line ${ALL - 1}.`, { exact: true }).waitFor();
  const { processor } = await meter(page);
  const older = page.getByRole("button", { name: "Show older messages" });
  const first = messages.getByRole("listitem").nth(1);
  const STEPS = 30;
  const before = await processor();
  for (let step = 0; step < STEPS; step++) {
    const was = await first.textContent();
    await older.click();
    await eventually("older ones are shown", async () => (await first.textContent()) !== was);
    assert.ok((await messages.getByRole("listitem").count()) <= MOST_ROWS + 2, "few rows");
  }
  const taken = ((await processor()) - before) / STEPS;
  assert.ok(taken < PAGE_CHANGE, `a step took ${taken} s of the processor`);
  await leave();
});

test(`${RATE} events a second are drawn once a frame, and neither rows nor memory grow`, async () => {
  const { page, context, leave } = await person(browser);
  await signIn(page, place.owner);
  await page.getByRole("link", { name: "Events", exact: true }).click();
  await page.getByRole("heading", { level: 1, name: "Events" }).waitFor();
  // Another tab of this browser tells of events, as the one does that reads the stream.
  const other = await context.newPage();
  await other.goto(`${node().api}/console/licences.txt`);
  const { client, processor } = await meter(page);
  const rows = page.getByRole("table", { name: "Events, the newest first" }).locator("tbody tr");
  const drawn = () =>
    page.evaluate(() => {
      window.draws = 0;
      window.frames = 0;
      new MutationObserver(() => window.draws++).observe(document.querySelector("main"), { childList: true, subtree: true });
      const count = () => {
        window.frames++;
        requestAnimationFrame(count);
      };
      requestAnimationFrame(count);
    });
  await drawn();
  const before = await processor();
  const told = await other.evaluate(
    ([rate, seconds]) =>
      new Promise((done) => {
        const channel = new BroadcastChannel("gateway-console-members");
        const began = performance.now();
        let sent = 0;
        const timer = setInterval(() => {
          const due = Math.min(rate * seconds, Math.floor(((performance.now() - began) / 1_000) * rate));
          for (; sent < due; sent++) {
            const data = { event: "message.received", event_id: `e-${sent}`, channel_id: "0198c6a2-0d3b-7a57-a1f0-000000000001", occurred_at: new Date().toISOString(), data: { message_id: `M${sent}`, text: "x".repeat(200), from: "4915000@s.whatsapp.net" } };
            channel.postMessage({ kind: "event", id: `${sent}`, name: "message.received", data });
          }
          if (sent === rate * seconds) {
            clearInterval(timer);
            done(sent);
          }
        }, 20);
      }),
    [RATE, EVENTS_SECONDS],
  );
  assert.equal(told, RATE * EVENTS_SECONDS);
  await page.getByText(`"M${told - 1}"`).first().waitFor();
  const taken = ((await processor()) - before) / EVENTS_SECONDS;
  const { draws, frames } = await page.evaluate(() => ({ draws: window.draws, frames: window.frames }));
  // Beside them, clocks are drawn anew each second.
  assert.ok(draws <= frames + 5 * EVENTS_SECONDS, `${draws} changes of the document in ${frames} frames`);
  assert.ok((await rows.count()) <= MOST_ROWS, `${await rows.count()} rows`);
  assert.ok(taken < 0.6, `a second of events takes ${taken} s of the processor`);
  await client.send("HeapProfiler.collectGarbage");
  const { usedSize } = await client.send("Runtime.getHeapUsage");
  assert.ok(usedSize < HEAP, `the page takes ${usedSize} bytes`);
  console.log(`${RATE} events a second take ${Math.round(taken * 100)} % of a processor, ${draws} draws in ${frames} frames, ${Math.round(usedSize / 1024)} KiB of heap`);
  await settled(page);
  await leave();
});
