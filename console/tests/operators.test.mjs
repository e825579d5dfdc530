import assert from "node:assert/strict";
import { after, before } from "node:test";
import { eventually, judge, launch, node, operator, paired, person, place, settled, signIn as memberSignIn, test } from "./place.mjs";

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
  for (const name of ["Overview", "Nodes", "Shards", "Layout", "Timeline", "Customers", "Channels", "Webhooks", "Trace", "Tickets", "Backup and secrets", "Audit log"]) {
    await pages(page).getByRole("link", { name, exact: true }).click();
    await page.getByRole("heading", { level: 1 }).waitFor();
    await settled(page);
    assert.equal(await page.getByRole("alert").count(), 0, name);
    await judge(page, `operators-${name.toLowerCase().replaceAll(" ", "-")}`);
  }
  await leave();
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
  await page.getByRole("dialog").getByRole("button", { name: "Drain", exact: true }).click();
  await eventually("it leads nothing", async () => (await operator("GET", "/v1/admin/nodes")).data.find((known) => known.id === first.id).owns?.length === 0, 60_000);
  await button("Undrain", first.id).waitFor();
  await button("Drain", second.id).click();
  await page.getByRole("dialog").getByText("is away or drained already").waitFor();
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
  await page.getByRole("button", { name: "Weigh" }).last().click();
  await page.getByLabel("Weight").fill("3");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await pages(page).getByRole("link", { name: "Layout" }).click();
  await page.getByRole("button", { name: "Plan", exact: true }).click();
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
  await asked.page.getByLabel("What is the matter").fill("None came.");
  await asked.page.getByRole("button", { name: "Send" }).click();
  await asked.page.getByRole("heading", { level: 1, name: /No messages/ }).waitFor();
  await judge(asked.page, "ticket");

  await signIn(page);
  await pages(page).getByRole("link", { name: "Timeline" }).click();
  await page.getByText(`node ${node(2).id}: drained`).first().waitFor();
  await page.getByLabel("What", { exact: true }).selectOption("node");
  await page.getByText(`node ${node(2).id}: undrained`).first().waitFor();
  await pages(page).getByRole("link", { name: "Tickets" }).click();
  await page.getByRole("link", { name: /No messages/ }).first().click();
  await page.getByLabel("Your answer").fill("Try again now.");
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByText("Try again now.").first().waitFor();
  await asked.page.getByText("Try again now.").first().waitFor();
  await asked.leave();
  await leave();
});
