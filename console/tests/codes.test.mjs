// The pairing page when nobody scans, when a node restarts meanwhile, and when the network or the plan refuses.
import assert from "node:assert/strict";
import { after, before } from "node:test";
import { LATE, api, eventually, hears, kill, launch, node, operator, person, phone, place, restart, scan, shows, signIn, simulator, test } from "./place.mjs";

let browser;
before(async () => (browser = await launch()));
after(() => browser?.close());

const [OWN, BANNED, FULL] = place.phones;
const faults = (change) => simulator("PUT", "/faults", change);

/** Opens the pairing page of a new channel, and waits for its code. */
async function pairing(page, name) {
  const { id } = await api("POST", "/v1/channels", { name });
  await page.goto(`${node().api}/console/channel?id=${id}&tab=pairing`);
  const code = page.getByRole("img", { name: "QR code to scan with the phone" });
  await code.waitFor();
  return { id, code };
}

test("six codes pass without a blank, the page offers to start again, and a restart in between does no harm", async () => {
  const { page, leave } = await person(browser);
  await signIn(page, place.owner);
  try {
    // Codes of three seconds and then of one.
    await faults({ qr_time_scale: 0.05 });
    const ownerOf = async ({ id }) => (await operator("GET", `/v1/admin/channels/${id}`)).node_id;
    // The page's own node stays: how it fares without it, another test shows.
    let late = await pairing(page, "Late");
    while ((await ownerOf(late)) === node().id) late = await pairing(page, "Late");
    const { id, code } = late;
    const codes = new Set();
    const ended = page.getByRole("heading", { name: "No phone scanned the code" });
    await eventually("the codes have passed", async () => {
      if (await ended.isVisible()) return true;
      const shown = await code.getAttribute("src", { timeout: 1_000 }).catch(() => null);
      if (shown === null) assert.ok(await ended.isVisible(), "there is always a code, or the word that none is there");
      else codes.add(shown);
      return false;
    });
    assert.ok(codes.size >= 4, `${codes.size} codes were seen`);
    await faults({ qr_time_scale: 1 });
    await page.getByRole("button", { name: "Start again" }).click();
    await code.waitFor();

    const owner = await ownerOf(late);
    if (owner !== node().id) {
      const through = place.nodes.find((known) => known.id === owner);
      await kill(through);
      await restart(through);
    }
    await phone(OWN, "Late");
    await page.getByText("Live updates are on.").waitFor({ state: "attached" });
    const [heard, shown] = [await hears("channel.connected", ({ channel_id }) => channel_id === id), await shows(page, "Connected")];
    await eventually("the code is scanned", async () => {
      await scan(id, OWN);
      return true;
    });
    const delay = (await shown.at()) - (await heard.at);
    assert.ok(delay < LATE, `the page says it ${delay} ms after the event`);
    await leave();
  } finally {
    await simulator("DELETE", "/faults");
  }
});

test("a code is shown as long as it is good, however wrong the browser's clock is", async () => {
  for (const wrong of [120_000, -90_000]) {
    const { page, context, leave } = await person(browser);
    await context.addInitScript((wrong) => {
      const now = Date.now;
      Date.now = () => now() + wrong;
    }, wrong);
    await signIn(page, place.owner);
    await pairing(page, `Wrong by ${wrong} ms`);
    const said = /^This code expires in (\d+) s$/;
    const left = Number(said.exec(await page.getByText(said).innerText())[1]);
    assert.ok(left <= 61, `by a clock that is wrong by ${wrong} ms it is good for ${left} s`);
    await leave();
  }
});

test("each refusal is told in words, with what to do", async () => {
  const { page, leave } = await person(browser);
  await signIn(page, place.owner);
  try {
    await pairing(page, "Refused");
    await faults({ refuse_pairing: "code" });
    await page.getByRole("button", { name: "Use a code instead" }).click();
    await page.getByLabel("The phone's number").fill(OWN);
    await page.getByRole("button", { name: "Get a code" }).click();
    await page.getByText("The network did not give a code for this number.").waitFor();

    await faults({ refuse_pairing: "device_limit" });
    const full = await pairing(page, "Full");
    await phone(FULL);
    await scan(full.id, FULL).catch(() => undefined);
    await page.getByText("The phone may have reached its limit of linked devices").waitFor();
    await faults({ refuse_pairing: false });
    await page.getByRole("button", { name: "Start", exact: true }).click();
    await full.code.waitFor();

    const banned = await pairing(page, "Banned");
    await phone(BANNED);
    await scan(banned.id, BANNED);
    await page.getByRole("heading", { name: "Connected" }).waitFor();
    await simulator("POST", `/phones/${BANNED}/ban`, { until: new Date(Date.now() + 25 * 3_600_000).toISOString() });
    await page.getByText(/the network has banned the number \(the ban ends tomorrow\)\. Wait for that, or pair another number\./).waitFor();

    const shown = page.getByRole("img", { name: "QR code to scan with the phone" });
    const open = async (name) => {
      const { id } = await api("POST", "/v1/channels", { name });
      await page.goto(`${node().api}/console/channel?id=${id}&tab=pairing`);
    };
    await faults({ cut_node: place.nodes.map(({ id }) => id) });
    await open("Cut off");
    await page.getByText("There is no code at the moment.").waitFor();
    await faults({ cut_node: [] });
    await eventually("there is one again", async () => {
      const again = page.getByRole("button", { name: "Try again" });
      await shown.or(again).first().waitFor();
      // The page may go on by itself meanwhile, and the button with it.
      return (await shown.isVisible()) || (await again.click({ timeout: 2_000 }));
    });

    // As a node without a free slot says it. Nobody waits for the words as long as it asks for, and the page goes on by itself.
    const busy = { error: { code: "worker_at_capacity", message: "busy", details: null } };
    await page.route(/\/qr\?/, (route) => route.fulfill({ status: 503, headers: { "retry-after": "5" }, json: busy }));
    const asked = page.waitForRequest(/\/qr\?/);
    await open("Busy");
    await asked;
    await page.getByText("The node is busy, or the channel is moving to another one.").waitFor({ timeout: 10_000 });
    await page.unroute(/\/qr\?/);
    await shown.waitFor();

    // Nothing answers for a while, and the page goes on by itself when something does.
    await page.route(/\/qr\?/, (route) => route.abort("connectionrefused"));
    const lost = await api("POST", "/v1/channels", { name: "Lost" });
    await page.goto(`${node().api}/console/channel?id=${lost.id}&tab=pairing`);
    await page.getByText("The node did not answer.").waitFor();
    await page.unroute(/\/qr\?/);
    await page.getByRole("img", { name: "QR code to scan with the phone" }).waitFor();

    const { id } = await api("GET", "/v1/account");
    const { data } = await api("GET", "/v1/channels");
    await operator("PATCH", `/v1/admin/customers/${id}`, { plan: { channel_limit: data.length } });
    await page.goto(`${node().api}/console/channels?create=1`);
    await page.getByRole("dialog").getByLabel("Name").fill("One too many");
    await page.getByRole("button", { name: "Create", exact: true }).click();
    await page.getByText("Your plan has no channels left.").waitFor();
    await leave();
  } finally {
    await simulator("DELETE", "/faults");
  }
});

test("without JavaScript the page says what it needs", async () => {
  const { page, leave } = await person(browser, { javaScriptEnabled: false });
  await page.goto(`${node().api}/console`);
  assert.match(await page.locator("noscript p").innerText(), /^The console needs JavaScript/);
  await leave();
});
