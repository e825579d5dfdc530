// Pages of an account and a cluster that are in use: they are judged full, and are the pictures of README and the guide.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before } from "node:test";
import { api, eventually, judge, launch, node, operator, paired, person, phone, place, settled, signIn, simulator, test } from "./place.mjs";

let browser;
before(async () => (browser = await launch()));
after(() => browser?.close());

const [SALES, SUPPORT, ORDERS, ANN, BEN, CLOE] = place.phones;

/** Writes in turns, and waits until each line has come. */
async function talk(channel, own, other, lines) {
  for (const [who, text] of lines) {
    if (who === "we") await api("POST", `/v1/channels/${channel}/messages`, { type: "text", to: other, text });
    else await simulator("POST", `/phones/${other}/messages`, { to: own, type: "text", text });
    await eventually(text, async () => (await api("GET", `/v1/channels/${channel}/messages?limit=1`)).data[0]?.text === text);
  }
}

test("pages full of data can be used by everybody", async () => {
  const receiver = createServer((request, response) => {
    request.resume();
    request.on("end", () => {
      response.statusCode = request.url === "/shop" ? 200 : 503;
      response.end(request.url === "/shop" ? "ok" : "down for maintenance");
    });
  });
  await new Promise((listening) => receiver.listen(0, "127.0.0.1", listening));
  const url = (path) => `http://127.0.0.1:${receiver.address().port}/${path}`;
  try {
    const shop = await api("POST", "/v1/webhook-endpoints", { url: url("shop"), events: ["*"], enabled: true });
    for (const [number, name] of [[ANN, "Ann"], [BEN, "Ben"], [CLOE, "Cloe"]]) await phone(number, name);
    const sales = await paired("Sales", SALES);
    const support = await paired("Support", SUPPORT);
    await paired("Orders", ORDERS);
    await api("POST", "/v1/channels", { name: "Returns" });
    // It hears of one message alone: after ten failures in a row an endpoint is tried once in half a minute, whatever waits.
    await api("POST", "/v1/webhook-endpoints", { url: url("ledger"), events: ["message.received"], channel_id: support, enabled: true });
    await talk(support, SUPPORT, CLOE, [["they", "The parcel came without its papers."], ["we", "Sorry! They are on their way by mail."]]);
    await talk(sales, SALES, BEN, [["they", "When do you open on Sunday?"], ["we", "At ten, and we close at four."]]);
    await talk(sales, SALES, ANN, [
      ["they", "Hello! Do you have the blue ones in 42?"],
      ["we", "We do, two pairs. Shall we put one aside for you?"],
      ["they", "Yes please, until Saturday"],
      ["we", "Done. They wait under your name."],
    ]);
    await simulator("POST", `/phones/${ANN}/open-chat`, { with: SALES });
    await eventually("one delivery is given up", async () => (await api("GET", "/v1/webhook-deliveries?state=exhausted")).data.length > 0);
    // Rows of what is under way move while they are looked at.
    for (const state of ["pending", "in_flight", "retrying"]) {
      await eventually(`nothing is ${state}`, async () => (await api("GET", `/v1/webhook-deliveries?state=${state}`)).data.length === 0);
    }

    const { page, leave } = await person(browser);
    await signIn(page, place.owner);
    await page.getByText("The last 24 hours").waitFor();
    await judge(page, "full-home");
    const pages = page.getByRole("navigation", { name: "Pages" });
    for (const name of ["Channels", "Webhooks", "Deliveries", "Usage"]) {
      await pages.getByRole("link", { name, exact: true }).click();
      await page.getByRole("heading", { level: 1, name }).waitFor();
      await settled(page);
      await judge(page, `full-${name.toLowerCase()}`);
    }
    await page.goto(`${node().api}/console/channel?id=${sales}&tab=chats&chat=${ANN}`);
    const messages = page.getByRole("list", { name: "Messages, the newest last" });
    await messages.getByText("They wait under your name.").waitFor();
    await messages.getByText("read", { exact: true }).first().waitFor();
    await judge(page, "full-chat");
    await page.goto(`${node().api}/console/webhooks?id=${shop.id}`);
    await page.getByText(url("shop")).first().waitFor();
    await settled(page);
    await judge(page, "full-webhook");
    await pages.getByRole("link", { name: "Deliveries", exact: true }).click();
    // On a machine that is too busy channels log in again and again, and what that tells fills the page.
    await page.getByLabel("Event", { exact: true }).selectOption("message.received");
    await page.getByRole("link", { name: "message.received" }).first().click();
    await page.getByText(/status \d{3}/).first().waitFor();
    await judge(page, "full-delivery");
    await pages.getByRole("link", { name: "Events", exact: true }).click();
    await page.getByText("Live updates are on.").waitFor({ state: "attached" });
    await talk(sales, SALES, BEN, [["they", "And on Monday?"], ["we", "From nine."]]);
    await page.getByRole("button", { name: "message.received" }).first().waitFor();
    await judge(page, "full-events");
    await leave();
  } finally {
    receiver.close();
    receiver.closeAllConnections();
  }
});

test("operators' pages of a cluster in use can be used by everybody", async () => {
  const { id } = node(2);
  await operator("POST", `/v1/admin/nodes/${id}/drain`, {});
  await eventually("it leads nothing", async () => (await operator("GET", "/v1/admin/nodes")).data.find((known) => known.id === id).owns?.length === 0);
  await operator("POST", `/v1/admin/nodes/${id}/undrain`, {});
  const { page, leave } = await person(browser);
  await page.goto(`${node().ops}/console`);
  await page.getByLabel("Operator token").fill(place.operatorToken);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("Any one node can be lost", { exact: true }).waitFor();
  for (const name of ["Overview", "Nodes", "Shards", "Timeline", "Channels"]) {
    await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name, exact: true }).click();
    await page.getByRole("heading", { level: 1, name }).waitFor();
    await settled(page);
    assert.equal(await page.getByRole("alert").count(), 0, name);
    await judge(page, `full-operators-${name.toLowerCase()}`);
  }
  await leave();
});
