// What the pages do while nodes are killed, a node comes, and clocks turn; and whether their numbers are those of the network.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before } from "node:test";
import { promisify } from "node:util";
import { api, balancer, eventually, gateway, kill, launch, node, operator, paired, person, phone, place, restart, scan, settled, signIn, simulator, test } from "./place.mjs";

let browser;
before(async () => (browser = await launch()));
after(() => browser?.close());

const [OWN, FRIEND, CALM, LATE, OTHER, TAKEN, STEADY, STEADY_TOO] = place.phones;

/** For replicas that move, and a node that comes. */
const MOVES = 180_000;

/** From a kill to a page that goes on, where the channel's owner lives: three seconds on a machine with nothing else to do. */
const GOES_ON = 9_000;

test("usage is what the network has taken and given, and what the receivers have got", async () => {
  const { page, leave } = await person(browser);
  let got = 0;
  const receiver = createServer((request, response) => {
    request.resume();
    request.on("end", () => {
      got++;
      response.end();
    });
  });
  await new Promise((listening) => receiver.listen(0, "127.0.0.1", listening));
  try {
    await api("POST", "/v1/webhook-endpoints", { url: `http://127.0.0.1:${receiver.address().port}/`, events: ["message.received", "message.sent"], enabled: true });
    const id = await paired("Counted", CALM);
    await phone(LATE);
    for (let n = 0; n < 12; n++) await api("POST", `/v1/channels/${id}/messages`, { type: "text", to: LATE, text: `out ${n}` });
    for (let n = 0; n < 7; n++) await simulator("POST", `/phones/${LATE}/messages`, { to: CALM, type: "text", text: `in ${n}` });
    await eventually("all of it is delivered", () => got === 19);
    const { data: ledger } = await simulator("GET", "/accepted?limit=1000");
    const taken = ledger.filter(({ from }) => from.startsWith(`${CALM}@`)).length;
    assert.equal(taken, 12);
    await signIn(page, place.owner);
    await eventually("the page has the same numbers", async () => {
      await page.goto(`${node().api}/console/usage?by=channel`);
      const row = page.getByRole("table").locator("tbody tr");
      await row.first().waitFor();
      const cells = await row.first().getByRole("cell").allTextContents();
      // Day, channel, sent, received, failed, media, deliveries.
      return cells[2] === String(taken) && cells[3] === "7" && cells[4] === "0" && cells[6] === String(got);
    });
    await leave();
  } finally {
    receiver.close();
    receiver.closeAllConnections();
  }
});

test("after sixteen minutes two tabs have refreshed once, and a session that is ended leaves within five seconds", async () => {
  const { page, context, leave, asked } = await person(browser);
  await context.clock.install();
  let authorization;
  context.on("request", (request) => (authorization = request.headers().authorization ?? authorization));
  await signIn(page, place.owner);
  const other = await context.newPage();
  await other.goto(`${node().api}/console/channels`);
  await other.getByRole("heading", { level: 1, name: "Channels" }).waitFor();
  const refreshes = () => asked.filter((call) => call === "PUT /console/session").length;
  const before = refreshes();
  await context.clock.fastForward(16 * 60_000);
  await Promise.all([page.getByRole("link", { name: "Usage" }).click(), other.getByRole("link", { name: "Members" }).click()]);
  await page.getByRole("heading", { level: 1, name: "Usage" }).waitFor();
  await other.getByRole("heading", { level: 1, name: "Members" }).waitFor();
  await Promise.all([settled(page), settled(other)]);
  assert.equal(refreshes() - before, 1, "one refresh for both tabs");
  await page.getByText("Live updates are on.").waitFor({ state: "attached" });

  const ended = await fetch(`${node(1).api}/v1/auth/logout`, { method: "POST", headers: { authorization } });
  assert.ok(ended.ok, `${ended.status}`);
  const at = Date.now();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await other.getByRole("heading", { name: "Sign in" }).waitFor();
  assert.ok(Date.now() - at < 5_000, `both tabs left after ${Date.now() - at} ms`);
  await leave();
});

test("a page goes on by itself while the node that serves it is killed, and shows each event once", async () => {
  const door = await balancer("api");
  const { page, context, leave } = await person(browser);
  try {
    await signIn(page, place.owner, door.url);
    const { id } = await api("POST", "/v1/channels", { name: "Survivor" });
    await page.goto(`${door.url}/console/channel?id=${id}&tab=pairing`);
    const code = page.getByRole("img", { name: "QR code to scan with the phone" });
    await code.waitFor();
    await phone(OWN, "Survivor");

    const first = door.serving();
    await kill(first);
    const alive = () => place.nodes.find((known) => known.id !== first.id);
    await page.getByText("Live updates are on.").waitFor({ state: "attached" });
    await eventually("the code is scanned", async () => {
      await scan(id, OWN, alive());
      return true;
    });
    await page.getByRole("heading", { name: "Connected" }).waitFor();
    await restart(first);

    // A second tab of the same browser counts what comes; the first writes and reads.
    await phone(FRIEND, "Ann");
    await page.getByRole("link", { name: "Send a message to yourself" }).waitFor();
    await page.goto(`${door.url}/console/channel?id=${id}&tab=chats&chat=${FRIEND}`);
    const events = await context.newPage();
    await events.goto(`${door.url}/console/events`);
    await events.getByText("Live updates are on.").waitFor({ state: "attached" });
    const messages = page.getByRole("list", { name: "Messages, the newest last" });
    const write = (n) => simulator("POST", `/phones/${FRIEND}/messages`, { to: OWN, type: "text", text: `word ${n}.` });
    const words = 20;
    for (let n = 0; n < words / 2; n++) await write(n);
    await messages.getByText("word 9.", { exact: true }).waitFor();
    const { node_id: owner } = await operator("GET", `/v1/admin/channels/${id}`);
    const second = place.nodes.find((known) => known.id !== owner);
    door.prefer(second);
    await eventually("the page is served by another node than the owner", async () => {
      await page.reload();
      await messages.getByText("word 9.", { exact: true }).waitFor();
      return door.serving().id === second.id;
    });
    await Promise.all([page, events].map((tab) => tab.getByText("Live updates are on.").waitFor({ state: "attached" })));
    // A send is under way as the node dies, which may or may not have taken it.
    const box = page.getByRole("textbox", { name: "Message" });
    await box.fill("amid a kill");
    await box.press("Enter");
    await kill(second);
    const killed = Date.now();
    await write(10);
    await messages.getByText("word 10.", { exact: true }).waitFor();
    const after = Date.now() - killed;
    assert.ok(after < GOES_ON, `the page went on after ${after} ms`);
    for (let n = 11; n < words; n++) await write(n);
    await box.fill("still here");
    await box.press("Enter");
    await messages.getByText("still here").waitFor();
    for (let n = 0; n < words; n++) {
      await messages.getByText(`word ${n}.`, { exact: true }).first().waitFor();
      assert.equal(await messages.getByText(`word ${n}.`, { exact: true }).count(), 1, `word ${n}`);
    }
    const received = events.getByRole("button", { name: "message.received", exact: true });
    await eventually("each event is shown once", async () => (await received.count()) === words);
    const inbox = await simulator("GET", `/phones/${FRIEND}/inbox`);
    assert.equal(inbox.data.filter(({ text }) => text === "still here").length, 1);
    // What became of the other one is said, unless its answer came: it stands in the chat, or it may be sent again.
    const amid = messages.getByText("amid a kill", { exact: true });
    await amid.or(page.getByRole("button", { name: "Send it again" })).first().waitFor();
    await eventually("the page says what the phone has", async () => {
      const times = (await simulator("GET", `/phones/${FRIEND}/inbox`)).data.filter(({ text }) => text === "amid a kill").length;
      assert.ok(times <= 1, `it was sent ${times} times`);
      return (await amid.count()) === times;
    });
    await restart(second);
    await leave();
  } finally {
    door.close();
  }
});

test("a node is drained, restarted and taken back by the page under sixty sends a second, and no send fails", async () => {
  const { page, leave } = await person(browser);
  const [stays, drained, second] = [node(0), node(1), node(2)];
  const channels = [await paired("Steady", STEADY), await paired("Steady, too", STEADY_TOO)];
  await phone(FRIEND, "Ann");
  // Through nodes that stay: what a client sees whose own node goes is told by the balancer's tests.
  const failed = [];
  const open = new Set();
  let sends = 0;
  const timer = setInterval(() => {
    const n = sends++;
    const sent = api("POST", `/v1/channels/${channels[n % channels.length]}/messages`, { type: "text", to: FRIEND, text: `steady ${n}` }, n % 2 ? stays : second)
      .catch((error) => failed.push(`${n}: ${error.message}`))
      .finally(() => open.delete(sent));
    open.add(sent);
  }, 1_000 / 60);
  try {
    await page.goto(`${stays.ops}/console/nodes`);
    await page.getByLabel("Operator token").fill(place.operatorToken);
    await page.getByRole("button", { name: "Sign in" }).click();
    const button = (name, { id }) => page.getByRole("table").locator("tbody tr").nth(place.nodes.findIndex((known) => known.id === id)).getByRole("button", { name, exact: true });
    const dialog = page.getByRole("dialog");
    const of = async ({ id }) => (await operator("GET", "/v1/admin/nodes")).data.find((known) => known.id === id);
    const before = await operator("GET", "/v1/admin/nodes");
    await button("Drain", drained).click();
    await dialog.getByRole("button", { name: "Drain", exact: true }).click();
    await eventually("it leads nothing", async () => (await of(drained)).owns?.length === 0);
    await button("Undrain", drained).waitFor();

    // A page that does not know of it yet asks for a second one: the node refuses, and the page says so in words.
    await page.route("**/v1/admin/nodes", (route) => route.fulfill({ json: before }));
    await button("Drain", drained).waitFor();
    await button("Drain", second).click();
    await dialog.getByRole("button", { name: "Drain", exact: true }).click();
    const words = await dialog.getByRole("alert").textContent();
    assert.match(words, new RegExp(`node ${drained.id}|drained`), words);
    assert.notEqual((await of(second)).member, "draining");
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await page.unroute("**/v1/admin/nodes");

    await gateway("dev", "stop", String(drained.id), `--data=${place.data}`);
    // It is ready only when it has been taken back, so that nothing waits for that.
    await gateway("dev", "start", String(drained.id), `--data=${place.data}`);
    await button("Undrain", drained).click();
    await button("Drain", drained).waitFor();
    await eventually("it leads again", async () => ((await of(drained)).owns?.length ?? 0) > 0, MOVES);
  } finally {
    clearInterval(timer);
  }
  await Promise.all(open);
  assert.deepEqual(failed, [], `of ${sends} sends`);
  assert.ok(sends > 120, `${sends} sends`);
  assert.deepEqual((await api("GET", "/v1/messages?status=failed&limit=5")).data.filter(({ text }) => text?.startsWith("steady")), []);
  await leave();
});

test("after the kill of an owner the timeline says who took over, after how long, and how many channels", async () => {
  const { page, leave } = await person(browser);
  const id = await paired("Taken", TAKEN);
  const { node_id } = await operator("GET", `/v1/admin/channels/${id}`);
  const owner = place.nodes.find((known) => known.id === node_id);
  const other = place.nodes.find((known) => known.id !== owner.id);
  await kill(owner);
  await page.goto(`${other.ops}/console/timeline?kind=lead`);
  await page.getByLabel("Operator token").fill(place.operatorToken);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText(new RegExp(`node \\d took over shards? [\\d, ]+ of node ${owner.id} after [\\d.]+ s; \\d+ channels? logs? in again`)).first().waitFor();
  await restart(owner);
  await leave();
});

test("a fourth node is let in by the line that the page shows, and a plan is carried out while the node that serves the page dies", async () => {
  const door = await balancer("ops");
  const folder = mkdtempSync(join(tmpdir(), "gateway-fourth-"));
  const base = Number(new URL(node().api).port) - node().id;
  const at = (offset) => `127.0.0.1:${base + offset}`;
  let fourth;
  const { page, leave } = await person(browser);
  try {
    await paired("Moved", OTHER);
    await page.goto(`${door.url}/console/nodes`);
    await page.getByLabel("Operator token").fill(place.operatorToken);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("button", { name: "Add a node" }).click();
    await page.getByLabel("Address at which the other nodes reach it").fill(at(204));
    await page.getByRole("button", { name: "Create a token" }).click();
    const line = await page.getByRole("group", { name: "Run this on the new machine" }).locator("code").textContent();
    assert.match(line, /gateway join/);
    // What a machine of its own would not have to be told.
    const here = `--dir ${folder} --data-dir ${folder}/data --peer-listen ${at(204)} --api-listen ${at(4)} --ops-listen ${at(104)}`;
    await promisify(execFile)("sh", ["-c", `${line.replace("gateway join", `${place.gateway} join`)} ${here}`]);
    await page.keyboard.press("Escape");
    fourth = spawn(place.gateway, ["run", "--config", join(folder, "gateway.toml")], { stdio: "ignore" });
    const rows = page.getByRole("table").locator("tbody tr");
    await eventually("the page shows it ready", async () => (await rows.count()) === 4 && (await rows.nth(3).getByText("ready").count()) === 1, MOVES);

    await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Layout" }).click();
    const apply = page.getByRole("button", { name: /^Apply plan/ });
    await eventually("there is something to move", async () => {
      await page.getByRole("button", { name: "Plan", exact: true }).click();
      await page.getByRole("heading", { name: /^Plan / }).waitFor();
      return apply.isVisible();
    });
    await apply.click();
    await page.getByText(/moves are done/).waitFor();
    const serving = door.serving();
    await kill(serving);
    await restart(serving);
    const change = async () => (await operator("GET", "/v1/admin/layout")).change;
    await eventually("the change ends", async () => (await change()).state === "done", MOVES);
    const { total } = await change();
    assert.ok(total > 0, "something has moved");
    await page.getByText(`${total} of ${total} moves are done`).waitFor();
    await eventually("the check is green", async () => (await operator("GET", "/v1/admin/check")).checks.every(({ level }) => level !== "failing"), MOVES);
    await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Overview" }).click();
    await page.getByText("Any one node can be lost", { exact: true }).waitFor();
    await leave();
  } finally {
    door.close();
    if (fourth) {
      fourth.kill("SIGKILL");
      await new Promise((gone) => fourth.once("exit", gone));
    }
    rmSync(folder, { recursive: true, force: true });
  }
});
