// The whole of the console without a mouse: every control of every page, every dialog, and the main job on both ports.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before } from "node:test";
import { api, eventually, judge, launch, node, nothingIsCovered, operator, paired, person, phone, place, reach, settled, simulator, test } from "./place.mjs";

let browser;
before(async () => (browser = await launch()));
after(() => browser?.close());

const [OWN, FRIEND, OTHER] = place.phones;

/** Goes to a control and presses a key there. */
async function press(page, control, key = "Enter") {
  await reach(page, control);
  await page.keyboard.press(key);
}

/** Goes to a field and writes into it, in place of what it holds. */
async function write(page, field, text) {
  await reach(page, field);
  await page.keyboard.press("Control+a");
  await page.keyboard.type(text);
}

/** Chooses of a list by the first letters of a choice. */
async function choose(page, field, text) {
  await reach(page, field);
  await page.keyboard.type(text);
  await eventually(`${text} is chosen`, () => field.evaluate((list, text) => list.selectedOptions[0].textContent.startsWith(text), text));
}

const pageLink = (page, name) => page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name, exact: true });

async function openPage(page, name, heading = name) {
  await press(page, pageLink(page, name));
  await page.getByRole("heading", { level: 1, name: heading, exact: true }).waitFor();
  await eventually("whoever listens hears which page it is", () => page.evaluate(() => document.activeElement?.tagName === "H1"));
  await settled(page);
}

const dialogOf = (page) => page.getByRole("dialog");

/** A dialog opens by a key, takes the focus, closes by Escape, and gives the focus back. */
async function opensAndCloses(page, opener) {
  await press(page, opener);
  await dialogOf(page).waitFor();
  assert.ok(await page.evaluate(() => document.querySelector("dialog[open]").contains(document.activeElement)), `${opener}: the focus is in the dialog`);
  // The rest of the page cannot be reached meanwhile.
  for (let steps = 0; steps < 8; steps++) {
    await page.keyboard.press("Tab");
    assert.ok(await page.evaluate(() => document.activeElement === document.body || document.querySelector("dialog[open]").contains(document.activeElement)), `${opener}: the focus stays in the dialog`);
  }
  await page.keyboard.press("Escape");
  await dialogOf(page).waitFor({ state: "detached" });
  await eventually(`the focus is back at ${opener}`, () => opener.evaluate((element) => element === document.activeElement));
}

/** Whatever can be used of what is shown is reached by the Tab key, and shows that it is. */
async function allIsReached(page, name) {
  const missed = await page.evaluate(() => {
    const shown = (element) => element.checkVisibility({ visibilityProperty: true });
    const controls = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")].filter((element) => shown(element) && !element.matches(":disabled"));
    window.unreached = new Set(controls);
    document.activeElement?.blur();
    return controls.length;
  });
  assert.ok(missed > 5, name);
  const before = await page.evaluate(() => window.unreached.size);
  for (let steps = 0; steps < before + 30; steps++) {
    await page.keyboard.press("Tab");
    const left = await page.evaluate(() => {
      const at = document.activeElement;
      const isMarked = at === document.body || getComputedStyle(at).outlineStyle !== "none";
      if (!isMarked) return `${at.outerHTML.slice(0, 120)} does not show that it has the focus`;
      window.unreached.delete(at);
      // What a page draws anew is another element: those that are gone are not asked for.
      for (const element of window.unreached) if (!element.isConnected) window.unreached.delete(element);
      return window.unreached.size;
    });
    assert.equal(typeof left, "number", `${name}: ${left}`);
    if (left === 0) return;
  }
  const left = await page.evaluate(() => [...window.unreached].map((element) => element.outerHTML.slice(0, 120)));
  assert.deepEqual(left, [], `${name}: not reached by the Tab key`);
}

test("a member does the whole job by the keyboard alone", async () => {
  // After ten failures in a row an endpoint is tried once in half a minute: so one event alone fails later on.
  let fails = () => true;
  const receiver = createServer((request, response) => {
    request.resume();
    request.on("end", () => {
      response.statusCode = fails(request.headers["x-gateway-event"]) ? 500 : 200;
      response.end("said");
    });
  });
  await new Promise((listening) => receiver.listen(0, "127.0.0.1", listening));
  const url = `http://127.0.0.1:${receiver.address().port}/hook`;
  const { page, leave } = await person(browser);
  try {
    await page.goto(`${node().api}/console`);
    await write(page, page.getByLabel("E-mail address"), place.owner);
    await write(page, page.getByLabel("Password"), place.password);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "Home" }).waitFor();

    await openPage(page, "Channels");
    await opensAndCloses(page, page.getByRole("link", { name: "Create a channel" }).first());
    await press(page, page.getByRole("link", { name: "Create a channel" }).first());
    await write(page, dialogOf(page).getByLabel("Name"), "By keyboard");
    await page.keyboard.press("Enter");
    await page.getByRole("img", { name: "QR code to scan with the phone" }).waitFor();
    await press(page, page.getByRole("button", { name: "Scan with a simulated phone" }));
    await page.getByRole("heading", { name: "Connected" }).waitFor();
    await press(page, page.getByRole("link", { name: "Send a message to yourself" }));
    await write(page, page.getByRole("textbox", { name: "Message" }), "my first message");
    await page.keyboard.press("Enter");
    const messages = page.getByRole("list", { name: "Messages, the newest last" });
    await messages.getByText("my first message").waitFor();
    await messages.getByText(/^(sent|delivered)$/).first().waitFor();

    await openPage(page, "API keys");
    await opensAndCloses(page, page.getByRole("link", { name: "Create a key" }).first());
    await press(page, page.getByRole("link", { name: "Create a key" }).first());
    await write(page, dialogOf(page).getByLabel("Name"), "typed");
    await press(page, page.getByLabel("messages.read"), "Space");
    await press(page, dialogOf(page).getByRole("button", { name: "Create", exact: true }));
    await dialogOf(page).getByText(/^zpk_/).waitFor();
    await press(page, dialogOf(page).getByRole("button", { name: "Done" }));
    const key = page.getByRole("row", { name: /typed/ });
    await opensAndCloses(page, key.getByRole("button", { name: "Revoke" }));
    await press(page, key.getByRole("button", { name: "Revoke" }));
    await press(page, dialogOf(page).getByRole("button", { name: "Revoke" }));
    await key.waitFor({ state: "detached" });

    await openPage(page, "Webhooks");
    await press(page, page.getByRole("link", { name: "Add an endpoint" }).first());
    await write(page, dialogOf(page).getByLabel("URL"), url);
    await page.keyboard.press("Enter");
    await press(page, page.getByRole("button", { name: "Send a test" }));
    await page.getByText("status 500").first().waitFor();
    fails = (event) => event === "message.received";
    for (const name of ["Edit", "Recover", "Purge", "Delete"]) await opensAndCloses(page, page.getByRole("main").getByRole("button", { name, exact: true }));
    // A message that comes is delivered, refused until it is given up, and delivered again by hand.
    const channel = await paired("Typed", OWN);
    await phone(FRIEND);
    await simulator("POST", `/phones/${FRIEND}/messages`, { to: OWN, type: "text", text: "for the hook" });
    const given = async () => (await api("GET", `/v1/webhook-deliveries?event=message.received&channel_id=${channel}&state=exhausted`)).data.length > 0;
    await eventually("it is given up", given);
    fails = () => false;
    await openPage(page, "Deliveries");
    await choose(page, page.getByLabel("Event", { exact: true }), "message.received");
    await press(page, page.getByRole("link", { name: "message.received" }).first());
    await press(page, page.getByText("The receiver's answer").first());
    await page.getByText("said").first().waitFor();
    await press(page, page.getByRole("button", { name: "Redeliver" }));
    await page.getByRole("main").getByText("delivered", { exact: true }).first().waitFor();

    await openPage(page, "Members");
    await opensAndCloses(page, page.getByRole("button", { name: "Invite a member" }));
    await press(page, page.getByRole("button", { name: "Invite a member" }));
    await write(page, dialogOf(page).getByLabel("E-mail address"), "typed@example.com");
    await choose(page, dialogOf(page).getByLabel("Role"), "viewer");
    await press(page, dialogOf(page).getByRole("button", { name: "Invite" }));
    await dialogOf(page).getByText(/#set-password=zpw_/).waitFor();
    await judge(page, "invited");
    await press(page, dialogOf(page).getByRole("button", { name: "Done" }));
    const row = page.getByRole("row", { name: /typed@example.com/ });
    await opensAndCloses(page, row.getByRole("button", { name: "Change role" }));
    await press(page, row.getByRole("button", { name: "Remove" }));
    await press(page, dialogOf(page).getByRole("button", { name: "Remove" }));
    await row.waitFor({ state: "detached" });
    await openPage(page, "Account");
    await opensAndCloses(page, page.getByRole("button", { name: "Sign out everywhere" }));
    await opensAndCloses(page, page.getByRole("button", { name: "Delete the account" }));
    await openPage(page, "Support");
    await opensAndCloses(page, page.getByRole("link", { name: "Ask for help" }).first());

    for (const name of ["Home", "Channels", "Webhooks", "Deliveries", "Events", "API keys", "Usage", "Members", "Audit log", "Support", "Account"]) {
      await openPage(page, name);
      await allIsReached(page, name);
    }
    for (const tab of ["Chats", "Messages", "Status", "Settings", "Pairing"]) {
      await page.goto(`${node().api}/console/channel?id=${channel}&tab=${tab.toLowerCase()}`);
      await page.getByRole("heading", { level: 1, name: "Typed" }).waitFor();
      await settled(page);
      await allIsReached(page, `a channel's ${tab}`);
      if (tab === "Settings") await nothingIsCovered(page, "main input");
    }
    // The link past the pages comes first.
    await page.goto(`${node().api}/console/members`);
    await page.getByRole("heading", { level: 1, name: "Members" }).waitFor();
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement?.textContent), "Skip to content");
    await page.keyboard.press("Enter");
    assert.equal(await page.evaluate(() => document.activeElement?.id), "main");
    await press(page, page.getByRole("button", { name: "Sign out" }));
    await page.getByRole("heading", { level: 1, name: "Sign in" }).waitFor();
    await leave();
  } finally {
    receiver.close();
    receiver.closeAllConnections();
  }
});

/** What has the focus, in words. */
const focused = (page) => page.evaluate(() => `${document.activeElement.tagName} ${document.activeElement.name || document.activeElement.textContent}`);
const hasFocus = (page, what) => eventually(`the focus is at ${what}`, async () => (await focused(page)) === what);

test("the focus stays at a filter, and goes to the title of what comes in place of what had it", async () => {
  const { page, leave } = await person(browser);
  await page.goto(`${node().api}/console`);
  await hasFocus(page, "INPUT email");
  await page.keyboard.type(place.owner);
  await page.keyboard.press("Tab");
  await page.keyboard.type(place.password);
  await page.keyboard.press("Enter");
  await hasFocus(page, "H1 Home");

  await openPage(page, "Channels");
  await reach(page, page.getByLabel("Status", { exact: true }));
  await page.keyboard.press("ArrowDown");
  await page.waitForURL(/status=pending/);
  await page.keyboard.press("ArrowDown");
  await page.waitForURL(/status=qr/);
  assert.equal(await focused(page), "SELECT status");
  await openPage(page, "Deliveries");
  await write(page, page.getByLabel("http_status"), "200");
  await page.keyboard.press("Tab");
  await page.waitForURL(/http_status=200/);
  await settled(page);
  assert.equal(await focused(page), "INPUT since");
  await page.goBack();
  await page.goBack();
  await hasFocus(page, "H1 Channels");

  await openPage(page, "API keys");
  await press(page, page.getByRole("link", { name: "Create a key" }).first());
  await hasFocus(page, "INPUT name");
  await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
  assert.equal(await focused(page), "INPUT name", "the field has the focus");
  await page.keyboard.type("for the focus");
  await press(page, dialogOf(page).getByRole("button", { name: "Create", exact: true }));
  await hasFocus(page, "H2 Your new key");
  await press(page, dialogOf(page).getByRole("button", { name: "Copy", exact: true }));
  const notice = page.locator("[popover]").getByText("Copied", { exact: true });
  assert.ok(await notice.evaluate((element) => element.matches(":popover-open")), "what is said lies over the dialog");
  await page.keyboard.press("Escape");
  await dialogOf(page).waitFor({ state: "detached" });
  // The dialog had an address of its own, and leaves no second entry of the page.
  await page.goBack();
  await hasFocus(page, "H1 Channels");
  await page.goForward();
  await hasFocus(page, "H1 API keys");
  const key = page.getByRole("row", { name: /for the focus/ });
  await press(page, key.getByRole("button", { name: "Revoke" }));
  await press(page, dialogOf(page).getByRole("button", { name: "Revoke" }));
  await key.waitFor({ state: "detached" });
  await hasFocus(page, "H1 API keys");

  await openPage(page, "Support");
  await press(page, page.getByRole("link", { name: "Ask for help" }).first());
  await write(page, dialogOf(page).getByLabel("Subject"), "Where am I?");
  await write(page, dialogOf(page).getByLabel("What is the problem?"), "The focus.");
  await press(page, dialogOf(page).getByRole("button", { name: "Send" }));
  const title = page.getByRole("heading", { level: 1, name: /Where am I\?$/ });
  await eventually("the ticket's title has the focus", () => title.evaluate((heading) => heading === document.activeElement));
  await page.goBack();
  await hasFocus(page, "H1 Support");
  await press(page, page.getByRole("button", { name: "Sign out" }));
  await hasFocus(page, "H1 Sign in");
  await leave();
});

test("an operator drains, limits and suspends by the keyboard alone", async () => {
  await paired("Operated", OTHER);
  const { name } = await api("GET", "/v1/account");
  const { page, leave } = await person(browser);
  await page.goto(`${node().ops}/console`);
  await write(page, page.getByLabel("Operator token"), place.operatorToken);
  await page.keyboard.press("Enter");
  await page.getByText("Any one node can be lost", { exact: true }).waitFor();

  await openPage(page, "Nodes");
  const { id } = node(1);
  const button = (word) => page.getByRole("table").locator("tbody tr").filter({ has: page.locator("td[data-head=Node]", { hasText: new RegExp(`^${id}$`) }) }).getByRole("button", { name: word, exact: true });
  for (const word of ["Drain", "Change weight", "Remove"]) await opensAndCloses(page, button(word));
  await opensAndCloses(page, page.getByRole("button", { name: "Add a node" }));
  await press(page, button("Drain"));
  await press(page, dialogOf(page).getByRole("button", { name: "Drain" }));
  await button("Undrain").waitFor();
  await press(page, button("Undrain"));
  await button("Drain").waitFor();

  await openPage(page, "Customers");
  const row = page.getByRole("row", { name: new RegExp(name) });
  for (const word of ["Limits", "Suspend", "Delete"]) await opensAndCloses(page, row.getByRole("button", { name: word, exact: true }));
  await press(page, row.getByRole("button", { name: "Limits" }));
  await write(page, dialogOf(page).getByLabel("Channels", { exact: true }), "7");
  await press(page, dialogOf(page).getByRole("button", { name: "Save" }));
  await dialogOf(page).waitFor({ state: "detached" });
  assert.equal((await api("GET", "/v1/account")).plan.channel_limit, 7);
  await press(page, row.getByRole("button", { name: "Suspend" }));
  await press(page, dialogOf(page).getByRole("button", { name: "Suspend" }));
  await row.getByText("past_due").waitFor();
  assert.equal((await api("GET", "/v1/account")).plan.status, "past_due");
  await press(page, row.getByRole("button", { name: "Let it send again" }));
  await row.getByRole("button", { name: "Suspend" }).waitFor();
  await opensAndCloses(page, page.getByRole("button", { name: "Create a customer" }));

  await openPage(page, "Channels", "Channels of all customers");
  await opensAndCloses(page, page.getByRole("button", { name: "Disable" }).first());
  await openPage(page, "Shards");
  await opensAndCloses(page, page.getByRole("button", { name: "Move lead" }).first());
  await openPage(page, "Secrets");
  for (const word of ["Rotate the data keys", "Rotate the session key", "Rotate the authority"]) await opensAndCloses(page, page.getByRole("button", { name: word }));
  for (const name of ["Overview", "Nodes", "Shards", "Layout", "Timeline", "Customers", "Channels", "Webhooks", "Tickets", "Backup", "Secrets", "Releases", "Audit log"]) {
    await press(page, pageLink(page, name));
    await page.getByRole("heading", { level: 1 }).waitFor();
    await settled(page);
    await allIsReached(page, name);
  }
  await press(page, page.getByRole("button", { name: "Sign out" }));
  await page.getByLabel("Operator token").waitFor();
  await leave();
});
