// `/docs` in a real browser: it opens at once, and its calls can be tried out. Times are those of the processor, which do not
// depend on what else the machine does.
import assert from "node:assert/strict";
import { after, before } from "node:test";
import { launch, node, nothingIsCovered, person, place, soon, test } from "./place.mjs";

let browser;
before(async () => (browser = await launch()));
after(() => browser?.close());

/** Seconds of the processor that the page's tasks took so far. */
async function processor(client) {
  const { metrics } = await client.send("Performance.getMetrics");
  return metrics.find(({ name }) => name === "TaskDuration").value;
}

test("the list is drawn within a second of the processor, and *Send a message* is open within half of one", async () => {
  const { page, leave } = await person(browser);
  const client = await page.context().newCDPSession(page);
  await client.send("Performance.enable", { timeDomain: "threadTicks" });
  await page.goto(`${node().api}/docs`);
  const send = page.locator("details.call", { has: page.locator("summary", { hasText: /POST.*Send a message/s }) }).first();
  await send.waitFor();
  const drawn = await processor(client);
  assert.ok(drawn < 1, `the list took ${drawn} s`);
  await send.locator("summary").first().click();
  await send.getByRole("button", { name: "Send", exact: true }).waitFor();
  const opened = (await processor(client)) - drawn;
  assert.ok(opened < 0.5, `Send a message took ${opened} s`);
  const body = await send.getByLabel("JSON").inputValue();
  assert.equal(JSON.parse(body).type, "text", "the first example is a text");
  await leave();
});

test("something is drawn within a second, and so is the list, all of which the keyboard shows", async () => {
  const { page, leave } = await person(browser);
  const first = () => page.evaluate(() => new Promise((done) => new PerformanceObserver((list) => done(list.getEntries()[0].startTime)).observe({ type: "paint", buffered: true })));
  await soon("the first paint comes", async () => {
    await page.goto(`${node().api}/docs`);
    return first();
  });
  await soon("the list is there", async () => {
    const began = Date.now();
    await page.goto(`${node().api}/docs`);
    await page.locator("details.call").first().waitFor();
    return Date.now() - began;
  });
  await nothingIsCovered(page, "main section > details > summary");
  await leave();
});

test("a call is tried out with a key", async () => {
  const { page, leave } = await person(browser);
  await page.goto(`${node().api}/docs`);
  await page.getByLabel("Key").fill(place.key);
  const list = page.locator("details#list_channels");
  await list.locator("summary").first().click();
  await list.getByRole("button", { name: "Send", exact: true }).click();
  await list.getByRole("status").getByText(/^200/).waitFor();
  await list.locator("form pre", { hasText: '"data"' }).waitFor();
  await page.getByLabel("Find").fill("no call of this name");
  await page.getByText("No call and no event fits.").waitFor();
  await page.getByLabel("Find").fill("list channels");
  await list.waitFor();
  await leave();
});
