// What a console that is used without a pause costs the customer's programs: nothing of their calls, and one stream of ten.
// A quarter of a minute; GATEWAY_CONSOLE_MINUTES=60 makes it an hour.
import assert from "node:assert/strict";
import { after, before } from "node:test";
import { api, launch, node, paired, person, phone, place, settled, signIn, simulator, test } from "./place.mjs";

const MINUTES = Number(process.env.GATEWAY_CONSOLE_MINUTES ?? "0.25");

/** The account's streams, and what the page may take of the memory. */
const STREAMS = 10;
const HEAP = 100 * 1024 * 1024;

/** What the test itself takes of the bucket, which gains one call a second: it asks for the limits once a round. */
const OWN_CALLS = 4;

let browser;
before(async () => (browser = await launch()));
after(() => browser?.close());

const [OWN, FRIEND] = place.phones;

test("use without a pause takes nothing from the customer's bucket, and one stream of ten", { timeout: (MINUTES + 5) * 60_000 }, async () => {
  const channel = await paired("Watched", OWN);
  await phone(FRIEND, "Ann");
  const { page, leave, asked } = await person(browser);
  await signIn(page, place.owner);
  await page.getByText("Live updates are on.").waitFor({ state: "attached" });
  const limits = () => api("GET", "/v1/limits");
  const before = (await limits()).per_customer.remaining;

  const names = ["Home", "Channels", "Webhooks", "Deliveries", "Events", "API keys", "Usage", "Members", "Audit log", "Support", "Account"];
  const end = Date.now() + MINUTES * 60_000;
  let shown = 0;
  for (let round = 0; Date.now() < end || round === 0; round++) {
    await simulator("POST", `/phones/${FRIEND}/messages`, { to: OWN, type: "text", text: `round ${round}` });
    for (const name of names) {
      await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name, exact: true }).click();
      await page.getByRole("heading", { level: 1, name, exact: true }).waitFor();
      await settled(page);
      shown++;
    }
    await page.goto(`${node(round).api}/console/channel?id=${channel}&tab=chats&chat=${FRIEND}`);
    await page.getByRole("list", { name: "Messages, the newest last" }).getByText(`round ${round}`, { exact: true }).waitFor();
    const { remaining } = (await limits()).per_customer;
    assert.ok(remaining >= before - OWN_CALLS, `${remaining} calls are left to the customer's programs after ${shown} pages, of ${before}`);
  }
  const calls = asked.filter((call) => call.includes("/console/api/")).length;
  assert.ok(calls > shown, `${calls} calls for ${shown} pages`);

  // A customer's programs still have all streams but one.
  await page.getByText("Live updates are on.").waitFor({ state: "attached" });
  const open = async () => {
    const stop = new AbortController();
    const { status } = await fetch(`${node().api}/v1/events`, { headers: { authorization: `Bearer ${place.key}` }, signal: stop.signal });
    return { status, stop };
  };
  const streams = [];
  for (let n = 0; n < STREAMS - 1; n++) streams.push(await open());
  const beyond = await open();
  assert.deepEqual(streams.map(({ status }) => status), Array(STREAMS - 1).fill(200));
  assert.notEqual(beyond.status, 200, "the console holds the tenth");
  [...streams, beyond].forEach(({ stop }) => stop.abort());

  const client = await page.context().newCDPSession(page);
  await client.send("HeapProfiler.collectGarbage");
  const { usedSize } = await client.send("Runtime.getHeapUsage");
  assert.ok(usedSize < HEAP, `the page takes ${usedSize} bytes`);
  console.log(`${shown} pages in ${MINUTES} minutes, ${calls} calls, ${Math.round(usedSize / 1024)} KiB of heap`);
  await leave();
});
