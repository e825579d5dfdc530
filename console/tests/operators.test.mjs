import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before } from "node:test";
import { api, eventually, judge, launch, node, operator, paired, person, phone, place, settled, signIn as memberSignIn, test } from "./place.mjs";

let browser;
before(async () => (browser = await launch()));
after(() => browser?.close());

async function signIn(page, at = node(), token = place.operatorToken) {
  await page.goto(`${at.ops}/console`);
  await page.getByLabel("Operator token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
}

const pages = (page) => page.getByRole("navigation", { name: "Pages" });

test("a wrong token shows nothing but the sign-in, and the right one is kept only where that was asked for", async () => {
  const { page, leave } = await person(browser);
  await signIn(page, node(), "not-the-token-of-anybody");
  await page.getByText("That did not match.").waitFor();
  assert.equal(await pages(page).count(), 0);
  await judge(page, "operators-sign-in");
  await signIn(page, node(), "a token of other – letters");
  await page.getByText("a token contains only ASCII letters, digits and punctuation").waitFor();
  await signIn(page);
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  const stored = () => page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, location.href]));
  assert.ok(!(await stored()).includes(place.operatorToken));
  await page.reload();
  await page.getByLabel("Operator token").fill(place.operatorToken);
  await page.getByLabel("Keep it until this tab closes").check();
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  await page.reload();
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Operator token").waitFor();
  assert.ok(!(await stored()).includes(place.operatorToken));
  await leave();
});

test("every page of operators shows the cluster, and can be used by everybody", async () => {
  const { page, leave } = await person(browser);
  await paired("Operated", place.phones[6]);
  await signIn(page);
  await page.getByText("Any one node can be lost", { exact: true }).waitFor();
  await page.getByText("Waiting deliveries", { exact: true }).waitFor();
  await page.getByText(/^Checks that pass: \d+$/).click();
  await page.getByRole("table", { name: "Checks that pass" }).getByText("clock", { exact: true }).waitFor();
  for (const name of ["Overview", "Nodes", "Shards", "Layout", "Timeline", "Customers", "Channels", "Webhooks", "Trace", "Tickets", "Backup", "Secrets", "Releases", "Audit log"]) {
    await pages(page).getByRole("link", { name, exact: true }).click();
    await page.getByRole("heading", { level: 1 }).waitFor();
    await settled(page);
    assert.equal(await page.getByRole("alert").count(), 0, name);
    await judge(page, `operators-${name.toLowerCase().replaceAll(" ", "-")}`);
  }
  await pages(page).getByRole("link", { name: "Shards", exact: true }).click();
  await page.getByLabel("Sorted by").selectOption("channels");
  const channels = async () => (await page.getByRole("table").locator("tbody tr td:nth-child(4)").allTextContents()).map((text) => Number(text.replaceAll(",", "")));
  await eventually("the shard with most channels comes first", async () => {
    const counts = await channels();
    return counts[0] > 0 && counts.every((count, index) => index === 0 || count <= counts[index - 1]);
  });
  await leave();
});

test("figures show each node, however many there are, and say which did not answer", async () => {
  const { page, leave } = await person(browser);
  const figures = await eventually("there are figures", async () => {
    const known = await operator("GET", "/v1/admin/figures");
    return known.nodes[0].points.length > 0 && known;
  });
  const [first] = figures.nodes;
  const six = [1, 2, 3, 4, 5, 6].map((node_id) => ({ ...first, node_id }));
  await page.route(/\/v1\/admin\/figures/, (route) => route.fulfill({ json: { ...figures, nodes: [...six, { node_id: 7, silence: "it is down", points: [] }] } }));
  await signIn(page);
  await page.getByText("Node 7 did not answer").waitFor();
  const drawn = await page.getByRole("img", { name: /^Shards led over time/ }).locator("path").evaluateAll((paths) => paths.map((path) => getComputedStyle(path).stroke));
  assert.equal(drawn.length, 7);
  assert.ok(!drawn.includes("none"), drawn.join(", "));
  await leave();
});

test("a message is traced by its id: what became of it, and of each attempt at an endpoint", async () => {
  const { page, leave } = await person(browser);
  const receiver = createServer((request, response) => {
    request.resume();
    request.on("end", () => response.end());
  });
  await new Promise((listening) => receiver.listen(0, "127.0.0.1", listening));
  let endpoint;
  try {
    endpoint = await api("POST", "/v1/webhook-endpoints", { url: `http://127.0.0.1:${receiver.address().port}/traced`, events: ["message.sent"], enabled: true });
    const channel = await paired("Traced", place.phones[7]);
    await phone(place.phones[5]);
    const { message_id: id } = await api("POST", `/v1/channels/${channel}/messages`, { type: "text", to: place.phones[5], text: "traced" });
    await eventually("its webhook was called", async () => (await operator("GET", `/v1/admin/messages/${id}/trace`)).data[0].steps.some(({ step }) => step === "attempt"));
    await signIn(page);
    await pages(page).getByRole("link", { name: "Trace" }).click();
    await page.getByLabel("Message id").fill(id);
    await page.getByRole("main").getByRole("button", { name: "Trace", exact: true }).click();
    await page.getByRole("heading", { level: 2, name: "Traced" }).waitFor();
    await page.getByRole("table", { name: "Steps", exact: true }).getByText("accepted", { exact: true }).waitFor();
    await page.getByText(/^Endpoint .*: 1 attempt;/).first().click();
    await page.getByRole("table", { name: /^Steps at Endpoint/ }).first().getByText("attempt", { exact: true }).waitFor();
    await judge(page, "operators-traced");
    await page.getByLabel("Message id").fill("3EB0000000000000000000");
    await page.getByRole("main").getByRole("button", { name: "Trace", exact: true }).click();
    await page.getByRole("alert").waitFor();
    await page.goBack();
    await page.getByRole("heading", { level: 2, name: "Traced" }).waitFor();
    await eventually("the field says what is traced", async () => (await page.getByLabel("Message id").inputValue()) === id);
    // Asked for once more, it is looked for once more.
    const again = page.waitForResponse((response) => response.url().includes(`/v1/admin/messages/${id}/trace`));
    await page.getByRole("main").getByRole("button", { name: "Trace", exact: true }).click();
    await again;
    await leave();
  } finally {
    // Nothing is to wait for a receiver that is gone.
    if (endpoint) await api("DELETE", `/v1/webhook-endpoints/${endpoint.id}`);
    receiver.close();
    receiver.closeAllConnections();
  }
});

test("an open page costs the node less than half a call a second", async () => {
  const SECONDS = 30;
  const { context, leave } = await person(browser);
  const open = ["Overview", "Nodes", "Shards", "Layout", "Timeline", "Webhooks", "Secrets"].map(async (name) => {
    const page = await context.newPage();
    await signIn(page);
    await pages(page).getByRole("link", { name, exact: true }).click();
    await page.getByRole("heading", { level: 1 }).waitFor();
    await settled(page);
    return { name, page };
  });
  const counts = (await Promise.all(open)).map(({ name, page }) => {
    const count = { name, calls: 0 };
    page.on("request", (request) => request.url().includes("/v1/") && count.calls++);
    return count;
  });
  // What happens within a time is what is measured here.
  await new Promise((over) => setTimeout(over, SECONDS * 1_000));
  for (const { name, calls } of counts) assert.ok(calls > 0 && calls < SECONDS / 2, `${name} has made ${calls} calls in ${SECONDS} s`);
  await leave();
});

test("webhooks that are stuck are grouped by host, each with its last error in words", async () => {
  const { page, leave } = await person(browser);
  const row = (n, host, last_error) => ({
    endpoint_id: `0198c6a2-0d3b-7a57-a1f0-5a5e9d7c6b1${n}`, customer_id: "0198c6a2-0d3b-7a57-a1f0-5a5e9d7c6b00", customer_name: "Acme", url: `https://${host}/hook/${n}`, state: "failing", disabled_reason: null,
    failing_since: "2026-01-01T00:00:00.000Z", last_success_at: null, waiting: n, or_more: false, oldest: "2026-01-01T00:00:00.000Z", next_attempt_at: null, last_error,
  });
  await page.route("**/v1/admin/webhooks/stuck", (route) =>
    route.fulfill({ json: { data: [row(1, "one.example", "it answered 503"), row(2, "two.example", "no answer <b>in time</b>"), row(3, "one.example", null)], next_cursor: "more" } }));
  await signIn(page);
  await page.getByText("6 or more", { exact: true }).waitFor();
  await pages(page).getByRole("link", { name: "Webhooks" }).click();
  await page.getByRole("heading", { level: 2, name: /^one\.example 4 waiting$/ }).waitFor();
  assert.equal(await page.getByRole("table", { name: "Endpoints at one.example" }).getByRole("row").count(), 3, "two, and the heads");
  await page.getByText("it answered 503", { exact: true }).waitFor();
  await page.getByText("These have waited longest;").waitFor();
  await page.getByText("no answer <b>in time</b>", { exact: true }).waitFor();
  await judge(page, "operators-stuck");

  // One that the gateway has given up is called again for a reason.
  const gone = { ...row(4, "two.example", "it answered 410"), state: "disabled", disabled_reason: "gone" };
  await page.unroute("**/v1/admin/webhooks/stuck");
  await page.route("**/v1/admin/webhooks/stuck", (route) => route.fulfill({ json: { data: [gone, row(1, "one.example", null)], next_cursor: null } }));
  const asked = [];
  await page.route("**/v1/admin/webhook-endpoints/*/enable", (route) => {
    asked.push([new URL(route.request().url()).pathname, route.request().postDataJSON()]);
    return asked.length > 1 ? route.fulfill({ status: 204 }) : route.fulfill({ status: 409, json: { error: { code: "no_op", message: "the endpoint is switched on", details: null } } });
  });
  const dialog = page.getByRole("dialog");
  await page.getByRole("button", { name: "Switch on" }).click();
  await dialog.getByLabel("Reason").fill("its owner's new receiver");
  await dialog.getByText(/^curl -sS -X POST /).waitFor();
  await judge(page, "operators-switch-on");
  await dialog.getByRole("button", { name: "Switch on" }).click();
  await dialog.getByRole("alert").getByText("no_op").waitFor();
  await dialog.getByRole("button", { name: "Switch on" }).click();
  await dialog.waitFor({ state: "detached" });
  assert.deepEqual(asked[1], [`/v1/admin/webhook-endpoints/${gone.endpoint_id}/enable`, { reason: "its owner's new receiver" }]);
  await leave();
});

test("a token that may only look shows every page and no button that changes something", async () => {
  const { page, leave } = await person(browser);
  const status = await operator("GET", "/v1/admin/status");
  assert.deepEqual([status.operator, status.access], [null, "write"]);
  await page.route("**/v1/admin/status", (route) => route.fulfill({ json: { ...status, operator: "ann", access: "read" } }));
  await signIn(page);
  await page.getByText("ann, read-only").waitFor();
  const { data: tickets } = await operator("GET", "/v1/admin/support/tickets");
  const visited = ["home", "nodes", "shards", "layout", "timeline", "customers", "channels", "webhooks", "trace", "tickets", "backup", "secrets", "releases", "audit"].map((name) => [name, ""]);
  const { data: customers } = await operator("GET", "/v1/admin/customers");
  visited.push(["customers", `?id=${customers[0].id}`]);
  if (tickets[0]) visited.push(["tickets", `?id=${tickets[0].id}`]);
  for (const [name, query] of visited) {
    await page.evaluate(([name, query]) => {
      history.pushState(null, "", name === "home" ? "/console" : `/console/${name}${query}`);
      window.dispatchEvent(new PopStateEvent("popstate"));
    }, [name, query]);
    await page.getByRole("heading", { level: 1 }).waitFor();
    await settled(page);
    const words = /^(Add a node|Drain|Undrain|Change weight|Remove|Move|Apply|Cancel|Create|Limits|Suspend|Let it|Delete|Disable|Enable|Switch on|Start|Rotate|Exchange|Raise|Send)/;
    assert.deepEqual(await page.getByRole("main").getByRole("button", { name: words }).allTextContents(), [], `${name}${query}`);
    assert.equal(await page.getByRole("main").getByRole("link", { name: "Move", exact: true }).count(), 0, `${name}${query}`);
  }
  // It may work out a plan, which changes nothing.
  await pages(page).getByRole("link", { name: "Layout", exact: true }).click();
  await page.getByRole("button", { name: "Plan", exact: true }).waitFor();
  await leave();
});

test("a customer's page has its members, its keys and the ways to the rest", async () => {
  const { page, leave } = await person(browser);
  const { id, name } = await api("GET", "/v1/account");
  await signIn(page);
  await pages(page).getByRole("link", { name: "Customers" }).click();
  await page.getByRole("row").filter({ hasText: name }).getByRole("link").first().click();
  await page.getByRole("heading", { level: 1, name }).waitFor();
  await page.getByRole("table", { name: "Members" }).getByText(place.owner, { exact: true }).waitFor();
  await page.getByRole("table", { name: "API keys" }).getByText(place.key.slice(0, 12), { exact: true }).waitFor();
  assert.ok(!(await page.content()).includes(place.key), "no secret");
  await judge(page, "operators-customer");
  await page.getByRole("link", { name: "Its audit log" }).click();
  await page.getByRole("heading", { level: 1, name: "Audit log" }).waitFor();
  assert.equal(await page.getByLabel("customer_id").inputValue(), id);
  // Where the entries of all stand together, each says whose it is.
  await page.getByRole("columnheader", { name: "Customer" }).waitFor();
  await page.getByRole("table", { name: /^Audit log/ }).getByTitle(`${id} (click to copy)`).first().waitFor();
  await leave();
});

test("a backup is taken by the page, and what became of it is there after a reload", async () => {
  const { page, leave } = await person(browser);
  const folder = mkdtempSync(join(tmpdir(), "gateway-backup-"));
  try {
    await signIn(page);
    await pages(page).getByRole("link", { name: "Backup" }).click();
    await page.getByLabel("To", { exact: true }).fill(join(folder, "first"));
    await page.getByRole("button", { name: "Start a backup" }).click();
    await page.getByText("It was read back and is complete.").waitFor();
    // Times change each second: whoever listens would hear nothing else.
    assert.equal(await page.getByRole("status").getByRole("time").count(), 0);
    await page.reload();
    await page.getByLabel("Operator token").fill(place.operatorToken);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("It was read back and is complete.").waitFor();
    await page.getByText(`gateway restore --from ${join(folder, "first")}`).first().waitFor();
    await page.getByText(/^The last backup was taken/).waitFor();
    await judge(page, "operators-backed-up");
    await pages(page).getByRole("link", { name: "Timeline", exact: true }).click();
    await page.getByRole("cell", { name: "a backup was taken" }).first().waitFor();
    await leave();
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test("a node is drained and taken back, and a second one is a warning", async () => {
  const { page, leave } = await person(browser);
  const [first, second] = [node(1), node(2)];
  await signIn(page);
  await pages(page).getByRole("link", { name: "Nodes" }).click();
  const table = page.getByRole("table");
  const button = (name, id) => table.locator("tbody tr").nth(place.nodes.findIndex((known) => known.id === id)).getByRole("button", { name, exact: true });
  await button("Drain", first.id).click();
  await page.getByRole("dialog").getByText(`gateway drain ${first.id}`).waitFor();
  await page.getByRole("dialog").getByText(/^The 2 other nodes that are ready have room for [\d,]+ more sessions: enough\.$/).waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Drain", exact: true }).click();
  await eventually("it leads nothing", async () => (await operator("GET", "/v1/admin/nodes")).data.find((known) => known.id === first.id).owns?.length === 0, 60_000);
  await button("Undrain", first.id).waitFor();
  await button("Drain", second.id).click();
  await page.getByRole("dialog").getByText("is down or drained already").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
  await button("Undrain", first.id).click();
  await button("Drain", first.id).waitFor();
  await leave();
});

test("removing a node wants its number typed", async () => {
  const { page, leave } = await person(browser);
  await signIn(page);
  await pages(page).getByRole("link", { name: "Nodes" }).click();
  await page.getByRole("button", { name: "Remove" }).last().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("2 nodes are left.").waitFor();
  await dialog.getByText(/^gateway node remove \d+ --force$/).waitFor();
  assert.ok(await dialog.getByRole("button", { name: "Remove" }).isDisabled());
  await dialog.getByLabel(/^Type/).fill("0");
  assert.ok(await dialog.getByRole("button", { name: "Remove" }).isDisabled());
  await dialog.getByRole("button", { name: "Cancel" }).click();
  assert.equal((await operator("GET", "/v1/admin/nodes")).data.length, place.nodes.length);
  await leave();
});

test("a weight and a plan move what they say, to the end", async () => {
  const { page, leave } = await person(browser);
  await signIn(page);
  await pages(page).getByRole("link", { name: "Nodes" }).click();
  await page.getByRole("button", { name: "Change weight" }).last().click();
  await page.getByLabel("Weight", { exact: true }).fill("3");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await pages(page).getByRole("link", { name: "Layout" }).click();
  await page.getByRole("button", { name: "Plan", exact: true }).click();
  await page.getByRole("button", { name: /^Apply plan/ }).waitFor();
  await page.reload();
  await page.getByLabel("Operator token").fill(place.operatorToken);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("button", { name: /^Apply plan/ }).click();
  await page.getByText(/moves are done/).waitFor();
  await eventually("the change ends", async () => (await operator("GET", "/v1/admin/layout")).change?.state === "done", 60_000);
  await page.getByRole("main").getByText("done", { exact: true }).first().waitFor();
  await leave();
});

test("the timeline says in words what was done, and a ticket is answered", async () => {
  const { page, leave } = await person(browser);
  await operator("POST", `/v1/admin/nodes/${node(2).id}/drain`, { force: true });
  await operator("POST", `/v1/admin/nodes/${node(2).id}/undrain`, {});
  const asked = await person(browser);
  await memberSignIn(asked.page, place.owner);
  await asked.page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Support" }).click();
  await asked.page.getByRole("link", { name: "Ask for help" }).click();
  await asked.page.getByLabel("Subject").fill("No messages <b>since</b> noon");
  await asked.page.getByLabel("What is the problem?").fill("None came.");
  await asked.page.getByRole("button", { name: "Send" }).click();
  await asked.page.getByRole("heading", { level: 1, name: /No messages/ }).waitFor();
  await judge(asked.page, "ticket");

  await signIn(page);
  await pages(page).getByRole("link", { name: "Timeline" }).click();
  await page.getByText(`node ${node(2).id}: drained`).first().waitFor();
  await page.getByRole("button", { name: "Previous mark" }).click();
  await page.getByRole("status").filter({ hasText: /^\d{4}-\d\d-\d\dT/ }).waitFor();
  await page.getByLabel("Kind", { exact: true }).selectOption("node");
  await page.getByText(`node ${node(2).id}: undrained`).first().waitFor();
  await pages(page).getByRole("link", { name: "Tickets" }).click();
  await page.getByRole("link", { name: /No messages/ }).first().click();
  await page.getByLabel("Your answer").fill("Try again now.");
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByText("Try again now.").first().waitFor();
  await asked.page.getByText("Try again now.").first().waitFor();
  await asked.leave();
  // Closed, it still says what was refused.
  await page.getByLabel("Status").selectOption("closed");
  await page.getByText("This ticket is closed.").waitFor();
  const error = { code: "storage_full", message: "there is little room", request_id: "r" };
  await page.route(/\/v1\/admin\/support\/tickets\/[^/]+$/, (route) => (route.request().method() === "PATCH" ? route.fulfill({ status: 503, json: { error } }) : route.fallback()));
  await page.getByLabel("Status").selectOption("open");
  await page.getByRole("alert").getByText("storage_full").waitFor();
  await leave();
});

test("a customer's limits are changed one by one, and a suspension is asked for once and taken back", async () => {
  const { page, leave } = await person(browser);
  const { id, name } = await operator("POST", "/v1/admin/customers", { name: "Limited <b>Ltd</b>" });
  const customer = () => operator("GET", `/v1/admin/customers/${id}`);
  const first = await customer();
  await signIn(page);
  await pages(page).getByRole("link", { name: "Customers" }).click();
  const row = page.getByRole("row").filter({ hasText: name });
  const dialog = page.getByRole("dialog");
  await row.getByRole("button", { name: "Limits" }).click();
  assert.ok(await dialog.getByRole("button", { name: "Save" }).isDisabled(), "nothing is changed yet");
  await judge(page, "operators-limits");
  await dialog.getByLabel("Channels", { exact: true }).fill("5");
  await dialog.getByLabel("Requests of the account, at once").fill("200");
  await dialog.getByLabel("Webhook endpoints").fill("9999");
  await dialog.getByText(`gateway customer limit ${id} plan.channel_limit=5 limits.customer.burst=200 limits.customer.refill_per_second=${first.limits.customer.refill_per_second} limits.storage.endpoints=9999`).waitFor();
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.getByText(/at most 250|250/).first().waitFor();
  assert.equal((await customer()).plan.channel_limit, null, "all or nothing");
  await dialog.getByLabel("Webhook endpoints").fill("3");
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.waitFor({ state: "detached" });
  const { plan, limits } = await customer();
  assert.equal(plan.channel_limit, 5);
  assert.deepEqual(limits.customer, { burst: 200, refill_per_second: first.limits.customer.refill_per_second });
  assert.deepEqual([limits.storage.endpoints, limits.storage.keys, limits.channel], [3, first.limits.storage.keys, first.limits.channel]);
  // Emptied, a limit is the deployment's again.
  await row.getByRole("button", { name: "Limits" }).click();
  await dialog.getByLabel("Requests of the account, at once").fill("");
  await dialog.getByLabel("Webhook endpoints").fill("");
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.waitFor({ state: "detached" });
  assert.deepEqual((await customer()).limits, first.limits);

  await row.getByRole("button", { name: "Suspend" }).click();
  await dialog.getByText(`gateway customer suspend ${id}`).waitFor();
  await dialog.getByRole("button", { name: "Cancel" }).click();
  assert.equal((await customer()).plan.overdue_since, null);
  await row.getByRole("button", { name: "Suspend" }).click();
  await dialog.getByRole("button", { name: "Suspend" }).click();
  await row.getByText("past_due").waitFor();
  assert.notEqual((await customer()).plan.overdue_since, null);
  await row.getByRole("button", { name: "Let it send again" }).click();
  await row.getByRole("button", { name: "Suspend" }).waitFor();
  assert.equal((await customer()).plan.overdue_since, null);
  await row.getByRole("button", { name: "Delete" }).click();
  assert.ok(await dialog.getByRole("button", { name: "Delete" }).isDisabled(), "the name has to be typed");
  await dialog.getByLabel(/^Type/).fill(name);
  await dialog.getByRole("button", { name: "Delete" }).click();
  await row.waitFor({ state: "detached" });
  await leave();
});

test("keys are rotated by the page, and what needs more says what is missing", async () => {
  const { page, leave } = await person(browser);
  await signIn(page);
  await pages(page).getByRole("link", { name: "Secrets" }).click();
  await page.getByText("settled", { exact: true }).first().waitFor();
  await page.getByText("secrets.previous_master_key_file", { exact: true }).first().waitFor();
  await page.getByRole("table", { name: "Certificates of the nodes" }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Exchange the master key" }).count(), 0, "no node was given another one");
  const dialog = page.getByRole("dialog");
  await page.getByRole("button", { name: "Rotate the authority" }).click();
  assert.ok(await dialog.getByRole("button", { name: "Rotate the authority" }).isDisabled(), "a word has to be typed");
  await dialog.getByText("gateway secrets rotate authority").waitFor();
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("button", { name: "Rotate the session key" }).click();
  await dialog.getByRole("button", { name: "Rotate the session key" }).click();
  await dialog.waitFor({ state: "detached" });
  await page.getByText("the previous key expires").first().waitFor();
  assert.notEqual((await operator("GET", "/v1/admin/secrets")).session_key.rotated_at, null);
  // A second one too soon is refused in words.
  await page.getByRole("button", { name: "Rotate the session key" }).click();
  await dialog.getByRole("button", { name: "Rotate the session key" }).click();
  await dialog.getByRole("alert").waitFor();
  await page.keyboard.press("Escape");
  await pages(page).getByRole("link", { name: "Releases" }).click();
  await page.getByText(/The cluster's format is \d; all nodes understand \d\./).waitFor();
  assert.equal(await page.getByRole("button", { name: /^Raise/ }).count(), 0, "it is the highest");
  await leave();
});

test("a master key that all nodes were given, and a format that all understand, are put to use when they are typed", async () => {
  const { page, leave } = await person(browser);
  await signIn(page);
  const present = await operator("GET", "/v1/admin/secrets");
  const asked = [];
  // What nodes say after a restart with other keys, and after an upgrade: the calls that follow are caught here.
  await page.route("**/v1/admin/secrets", (route) =>
    route.fulfill({ json: { ...present, state: "waiting", nodes: present.nodes.map((one) => ({ ...one, master_keys: ["abcd1234", present.master_key] })) } }));
  await page.route("**/v1/admin/format", (route) => route.fulfill({ json: { format: 2, highest: 3, nodes: [] } }));
  for (const path of ["keys/rotate", "format/raise"])
    await page.route(`**/v1/admin/${path}`, (route) => {
      asked.push(`${route.request().method()} ${path}`);
      return route.fulfill({ status: 202, json: {} });
    });
  const dialog = page.getByRole("dialog");
  for (const [name, open, action, typed, command] of [
    ["Secrets", "Exchange the master key", "Exchange the master key", "abcd1234", "gateway secrets rewrap"],
    ["Releases", "Raise to 3", "Raise", "3", "gateway format raise"],
  ]) {
    await pages(page).getByRole("link", { name }).click();
    await page.getByRole("main").getByRole("button", { name: open }).click();
    await dialog.getByText(command).waitFor();
    const does = dialog.getByRole("button", { name: action });
    assert.ok(await does.isDisabled(), name);
    await dialog.getByLabel(/^Type/).fill("something else");
    assert.ok(await does.isDisabled(), name);
    await dialog.getByLabel(/^Type/).fill(typed);
    await judge(page, `operators-${name.toLowerCase()}-confirmed`);
    await does.click();
    await dialog.waitFor({ state: "detached" });
  }
  assert.deepEqual(asked, ["POST keys/rotate", "POST format/raise"]);
  await leave();
});
