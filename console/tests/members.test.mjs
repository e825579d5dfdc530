import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { createServer } from "node:http";
import { after, before } from "node:test";
import { LATE, PATIENCE, api, below, eventually, hears, judge, launch, node, operator, paired, person, phone, place, reach, scan, settled, shows, signIn, simulator, soon, test } from "./place.mjs";

let browser;
before(async () => (browser = await launch()));
after(() => browser?.close());

const [OWN, SECOND, FRIEND, THIRD, FOURTH, FIFTH] = place.phones;
const badge = (page, status) => page.getByRole("main").getByText(status, { exact: true }).first();

test("a member creates a channel, and the page says connected after the scan", async () => {
  const { page, leave } = await person(browser);
  await signIn(page, place.owner);
  await page.getByRole("link", { name: "Create a channel" }).click();
  await page.getByRole("dialog").getByLabel("Name").fill("Sales");
  await page.getByRole("button", { name: "Create", exact: true }).click();
  const asked = Date.now();
  await page.getByRole("img", { name: "QR code to scan with the phone" }).waitFor();
  assert.ok(Date.now() - asked < 10_000, "the code is there soon");
  await page.getByText("Live updates are on.").waitFor({ state: "attached" });
  const id = new URL(page.url()).searchParams.get("id");
  await judge(page, "pairing");
  await phone(OWN, "Sales phone");
  const [heard, shown] = [await hears("channel.connected", ({ channel_id }) => channel_id === id), await shows(page, "Connected")];
  await eventually("the code is scanned", async () => {
    await scan(id, OWN);
    return true;
  });
  const late = (await shown.at()) - (await heard.at);
  assert.ok(late < LATE, `the page says it ${late} ms after the event`);
  await page.getByText(`+${OWN}`).first().waitFor();
  await judge(page, "connected");
  await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Channels", exact: true }).click();
  await page.getByRole("row", { name: /Sales/ }).getByText("The network accepted the login.").waitFor();
  await leave();
});

test("a channel that is opened from the list says, too, within a second that its number is connected", async () => {
  const { page, leave } = await person(browser);
  await signIn(page, place.owner);
  await soon("the page says it", async (n) => {
    const { id } = await api("POST", "/v1/channels", { name: `From the list ${n}` });
    await page.goto(`${node().api}/console/channel?id=${id}`);
    await page.getByText("Live updates are on.").waitFor({ state: "attached" });
    const [heard, shown] = [await hears("channel.connected", ({ channel_id }) => channel_id === id), await shows(page, "Connected")];
    await page.getByRole("button", { name: "Scan with a simulated phone" }).click();
    const took = (await shown.at()) - (await heard.at);
    await badge(page, "connected").waitFor();
    await api("DELETE", `/v1/channels/${id}`);
    return took;
  });
  await leave();
});

test("a code that is typed links a second channel, and refusals are words", async () => {
  const { page, leave } = await person(browser);
  await phone(SECOND, "Care");
  await signIn(page, place.owner);
  const { id } = await api("POST", "/v1/channels", { name: "Care" });
  await page.goto(`${node().api}/console/channel?id=${id}&tab=pairing`);
  await page.getByRole("img", { name: "QR code to scan with the phone" }).waitFor();
  await page.getByRole("button", { name: "Use a code instead" }).click();
  await page.getByLabel("The phone's number").fill("123");
  await page.getByRole("button", { name: "Get a code" }).click();
  await page.getByText("at least 7 digits").first().waitFor();
  await page.getByLabel("The phone's number").fill(SECOND);
  const get = page.getByRole("button", { name: "Get a code" });
  await get.click();
  const shown = page.getByText(/^(The code is)?\s*[A-Z0-9]{4}-[A-Z0-9]{4}$/);
  // On a busy machine a session may be new just then, and give none: people ask again.
  await eventually("a code", async () => {
    await shown.or(page.getByText("pair_code_failed")).first().waitFor();
    return (await shown.isVisible()) || (await get.click());
  });
  const code = (await shown.textContent()).match(/[A-Z0-9]{4}-[A-Z0-9]{4}/)[0];
  await page.getByRole("button", { name: /Another code in/ }).waitFor();
  await simulator("POST", `/phones/${SECOND}/link`, { pair_code: code });
  await page.getByRole("heading", { name: "Connected" }).waitFor();
  await leave();
});

test("a text and a reply appear at once, ticks go to read, and a cut answer doubles nothing", async () => {
  const { page, leave } = await person(browser);
  const id = await paired("Chats", THIRD);
  await phone(FRIEND, "Ann");
  await signIn(page, place.owner);
  await page.goto(`${node(1).api}/console/channel?id=${id}&tab=chats&chat=${FRIEND}`);
  // Another node of the same cluster, and so the same session.
  const box = page.getByRole("textbox", { name: "Message" });
  await box.fill("hello <b>there</b>");
  await box.press("Enter");
  const messages = page.getByRole("list", { name: "Messages, the newest last" });
  await messages.getByText("hello <b>there</b>").waitFor();
  await messages.getByText("delivered", { exact: true }).waitFor();
  await simulator("POST", `/phones/${FRIEND}/open-chat`, { with: THIRD });
  await messages.getByText("read", { exact: true }).waitFor();
  await simulator("POST", `/phones/${FRIEND}/messages`, { to: THIRD, type: "text", text: "hi, \u202egnp.exe" });
  await messages.getByText("⟨U+202E⟩gnp.exe").waitFor();
  await soon("an answer appears", async (n) => {
    const written = Date.now();
    await simulator("POST", `/phones/${FRIEND}/messages`, { to: THIRD, type: "text", text: `answer ${n}.` });
    await messages.getByText(`answer ${n}.`).waitFor();
    return Date.now() - written;
  });
  const media = { mime_type: "application/pdf", size: 2_000, filename: `<img src=x onerror=alert(1)>"'\u202efdp.exe` };
  await simulator("POST", `/phones/${FRIEND}/messages`, { to: THIRD, type: "document", media });
  await messages.getByRole("link", { name: `<img src=x onerror=alert(1)>"'⟨U+202E⟩fdp.exe` }).waitFor();
  await simulator("POST", `/phones/${FRIEND}/messages`, { to: THIRD, type: "text", text: "👨\u200d👩\u200d👧 می\u200cخواهم\r\nx\u200dy \u061c" });
  await messages.getByText("👨\u200d👩\u200d👧 می\u200cخواهم").waitFor();
  await messages.getByText("x⟨U+200D⟩y ⟨U+061C⟩").waitFor();
  assert.equal(await messages.getByText("U+000D").count(), 0, "the end of a line is no sign");
  await page.getByRole("status").filter({ hasText: "A new message has arrived." }).waitFor();
  await page.getByRole("region", { name: `Chat with ${FRIEND}` }).getByText("Ann", { exact: true }).waitFor();
  await judge(page, "chats");
  // A reply bears what it answers, and a reaction goes under what it is meant for; one step of the Tab key leads to the box.
  const greeting = messages.getByRole("listitem").filter({ hasText: "gnp.exe" });
  await greeting.getByText("Reply or react").click();
  await greeting.getByRole("button", { name: "Reply" }).click();
  assert.ok(await box.evaluate((element) => element === document.activeElement), "the box has the focus");
  await box.fill("quoted");
  await box.press("Enter");
  await messages.getByRole("listitem").filter({ hasText: /^hi, .*gnp\.exe.*quoted/s }).waitFor();
  await greeting.getByRole("button", { name: "React with 👍" }).click();
  await messages.getByText("You reacted 👍").waitFor();
  await box.evaluate((element) => element.blur());
  await page.getByRole("button", { name: "Write", exact: true }).click();
  assert.ok(await box.evaluate((element) => element === document.activeElement), "the button leads to the box");

  // The answer of a send is cut off on its way: the console asks the history, and does not send again.
  let sends = 0;
  await page.route(/\/messages$/, async (route) => {
    if (route.request().method() !== "POST") return route.fallback();
    sends++;
    await route.fetch();
    return route.abort("connectionreset");
  });
  await box.fill("only once");
  await box.press("Enter");
  await page.getByText("No answer arrived, but the message was sent.").waitFor();
  await messages.getByText("only once").waitFor();
  assert.equal(sends, 1);
  await page.unroute(/\/messages$/);
  const arrived = async (text) => (await simulator("GET", `/phones/${FRIEND}/inbox`)).data.filter((message) => message.text === text).length;
  assert.equal(await arrived("only once"), 1);

  // A balancer answers in place of the node, and the history cannot be read at once. What is written meanwhile stays.
  let lookups = 0;
  let release;
  const held = new Promise((done) => (release = done));
  const refs = [];
  await page.route(/\/messages(\?client_ref=.*)?$/, async (route) => {
    const request = route.request();
    if (request.method() !== "POST") return new URL(request.url()).searchParams.has("client_ref") && lookups++ < 3 ? route.abort("connectionreset") : route.fallback();
    const { client_ref, text } = request.postDataJSON();
    refs.push(client_ref);
    if (text !== "through a balancer") return route.fallback();
    await route.fetch();
    await held;
    return route.fulfill({ status: 502, contentType: "text/html", body: "<html><body><h1>502 Bad Gateway</h1></body></html>" });
  });
  await box.fill("through a balancer");
  await box.press("Enter");
  await eventually("the box is free as soon as it is sent", async () => (await box.inputValue()) === "", 1_000);
  await box.fill("the next one");
  await box.press("Enter");
  await box.fill("half wri");
  release();
  await page.getByText("it is not clear yet whether the message was sent").waitFor();
  await page.getByText("No answer arrived, but the message was sent.").waitFor();
  await messages.getByText("the next one").waitFor();
  assert.equal(await box.inputValue(), "half wri");
  assert.equal(new Set(refs).size, 2, "a send each");
  assert.equal(refs.length, 2);
  await page.unroute(/\/messages(\?client_ref=.*)?$/);
  await eventually("both have arrived", async () => (await arrived("through a balancer")) === 1 && (await arrived("the next one")) === 1);

  // What is refused comes back into the box; what is too long is not cut.
  await page.route(/\/messages$/, (route) => (route.request().method() === "POST" ? route.fulfill({ status: 429, headers: { "retry-after": "30" }, json: { error: { code: "rate_limited", message: "slow down", details: null } } }) : route.fallback()));
  await box.fill("too fast");
  await box.press("Enter");
  await page.getByText(/Try again in \d+ s\./).waitFor();
  assert.equal(await box.inputValue(), "too fast");
  await page.unroute(/\/messages$/);
  await box.fill("x".repeat(4_100));
  await page.getByText("4,100 characters are too many: the limit is 4,096.").waitFor();
  assert.ok(await page.getByRole("button", { name: "Send", exact: true }).isDisabled());
  await box.fill("");

  const picture = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");
  await page.getByLabel("File").setInputFiles({ name: "dot.png", mimeType: "image/png", buffer: picture });
  await page.getByRole("button", { name: "Send" }).click();
  const drawn = messages.getByRole("img", { name: /^image/ });
  await eventually("the picture is drawn", () => drawn.evaluate(({ naturalWidth }) => naturalWidth > 0));
  // Each answer has another link to it: what is drawn, or played, goes on with its own.
  const link = await drawn.getAttribute("src");
  await eventually("there is another link", async () => (await api("GET", `/v1/channels/${id}/messages?type=image&limit=1`)).data[0].media.url !== link);
  await simulator("POST", `/phones/${FRIEND}/messages`, { to: THIRD, type: "text", text: "a nice picture" });
  await messages.getByText("a nice picture").waitFor();
  assert.equal(await drawn.getAttribute("src"), link);
  await leave();
});

test("a conversation of hundreds of messages, and a list of hundreds of channels, are read to their ends a part at a time", async () => {
  const { page, leave } = await person(browser);
  const { id } = await eventually("the channel is connected", async () => (await api("GET", "/v1/channels?status=connected&name=Chats")).data[0]);
  const words = 230;
  for (let n = 0; n < words; n++) await simulator("POST", `/phones/${FRIEND}/messages`, { to: THIRD, type: "text", text: `line ${n}.` });
  await eventually("the last one has come", async () => (await api("GET", `/v1/channels/${id}/messages?limit=1`)).data[0].text === `line ${words - 1}.`);
  await signIn(page, place.owner);
  await page.goto(`${node().api}/console/channel?id=${id}&tab=chats&chat=${FRIEND}`);
  const messages = page.getByRole("list", { name: "Messages, the newest last" });
  const line = (n) => messages.getByText(`line ${n}.`, { exact: true });
  await line(words - 1).waitFor();
  const older = page.getByRole("button", { name: "Show older messages" });
  await messages.hover();
  await eventually("the wheel leads to older ones", async () => {
    await page.mouse.wheel(0, -1_000);
    return (await messages.getByRole("listitem").count()) > 60;
  });
  assert.ok(await messages.evaluate((list) => list.scrollTop > 0), "what was being read stays in its place");
  for (let clicks = 0; clicks < 20; clicks++) {
    // While a part is on its way the button is there, and may be gone when it has come.
    await eventually("what was asked for has come", () => older.evaluateAll((buttons) => buttons.every((button) => !button.disabled)));
    if ((await older.count()) === 0) break;
    const before = await messages.getByRole("listitem").nth(1).textContent();
    await older.click();
    await eventually("older ones are shown", async () => (await older.count()) === 0 || (await messages.getByRole("listitem").nth(1).textContent()) !== before);
    assert.ok((await messages.getByRole("listitem").count()) <= 202, "no more than 200 are in the document");
  }
  await messages.getByText("hello <b>there</b>").waitFor();
  await line(0).waitFor();
  const box = page.getByRole("textbox", { name: "Message" });
  await box.fill("from far back");
  await box.press("Enter");
  await messages.getByText("from far back").waitFor();
  await older.click();
  await page.getByRole("button", { name: "Show newer messages" }).click();
  await line(words - 1).waitFor();

  await Promise.all([...Array(130).keys()].map((n) => api("POST", "/v1/channels", { name: `Many ${n}` })));
  await page.goto(`${node().api}/console/channels?name=Many`);
  const rows = page.getByRole("table").locator("tbody tr");
  await eventually("a page is shown", async () => (await rows.count()) === 100);
  await page.getByRole("button", { name: "Next" }).click();
  await page.getByText("Page 2").first().waitFor();
  await eventually("the rest is shown", async () => (await rows.count()) === 30);
  await page.getByRole("button", { name: "Previous" }).click();
  await eventually("the first page is shown", async () => (await rows.count()) === 100);
  const filter = page.getByLabel("Name or number");
  await filter.fill("No such name");
  await filter.press("Enter");
  await page.getByText("No channels match.").waitFor();
  await page.goBack();
  await eventually("the field says what the list is filtered by", async () => (await filter.inputValue()) === "Many");
  // A key of a channel that is none of the newest hundred: it is looked for, and no key to all of them is made meanwhile.
  await page.goto(`${node().api}/console/keys?create=1`);
  const dialog = page.getByRole("dialog");
  const choice = dialog.getByRole("combobox", { name: "Channel", exact: true });
  await dialog.getByLabel("Find a channel").fill("Many 129");
  await eventually("it is found", async () => (await choice.locator("option").allTextContents()).join() === "choose one,Many 129");
  assert.ok(await choice.evaluate((select) => select.matches(":invalid")), "one has to be chosen");
  const some = async () => (await api("GET", "/v1/channels?name=Many&limit=100")).data;
  for (let left = await some(); left.length > 0; left = await some()) await Promise.all(left.map((row) => api("DELETE", `/v1/channels/${row.id}`)));
  await leave();
});

test("a webhook is made, tested, watched as it fails and hangs, delivered again by hand and by a recovery, and purged and deleted when that is typed", async () => {
  let status = 500;
  let hangs = false;
  const got = [];
  const receiver = createServer((request, response) => {
    let body = "";
    request.on("data", (part) => (body += part));
    request.on("end", () => {
      got.push({ headers: request.headers, body });
      // Ten failures in a row would keep the endpoint from the one that matters here.
      const isOfMessage = !/^(channel|chat|contact)\./.test(request.headers["x-gateway-event"] ?? "");
      response.statusCode = isOfMessage ? status : 200;
      // The second attempt gets no answer.
      const isSecond = got.filter(({ headers }) => headers["x-gateway-event"] === "message.received").length === 2;
      if (hangs && isSecond && request.headers["x-gateway-event"] === "message.received") return;
      response.end("<script>alert(1)</script>");
    });
  });
  await new Promise((listening) => receiver.listen(0, "127.0.0.1", listening));
  const url = `http://127.0.0.1:${receiver.address().port}/hook`;
  try {
    const { page, leave } = await person(browser);
    const id = await paired("Hooks", FOURTH);
    await signIn(page, place.owner);
    await page.getByRole("link", { name: "Webhooks", exact: true }).click();
    await judge(page, "webhooks");
    await page.getByRole("link", { name: "Add an endpoint" }).click();
    await page.getByLabel("URL").fill(url);
    await page.getByLabel("Signing secret").fill("whsec_0123456789abcdef");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("button", { name: "Send a test" }).click();
    await page.getByText("status 500").waitFor();
    await page.getByLabel("Event to send").selectOption("message.reaction");
    await page.getByText("What it looks like").click();
    await page.getByLabel("An example of message.reaction").waitFor();
    await page.getByRole("button", { name: "Send a test" }).click();
    await eventually("the example is there", () => got.some(({ headers }) => headers["x-gateway-event"] === "message.reaction"));
    await page.getByRole("button", { name: "Show the secret" }).click();
    await page.getByText("whsec_0123456789abcdef").first().waitFor();
    await judge(page, "webhook");

    // What was shown may be another secret after a change. Headers are marked where they are wrong, and can be taken away again.
    const editing = page.getByRole("dialog");
    const extra = editing.getByLabel("Extra headers");
    const headers = async () => (await api("GET", "/v1/webhook-endpoints")).data.find((known) => known.url === url).headers;
    await page.getByRole("button", { name: "Edit", exact: true }).click();
    await extra.fill("no header: x");
    await editing.getByRole("button", { name: "Save" }).click();
    await eventually("the field is marked", async () => (await extra.getAttribute("aria-invalid")) === "true");
    await extra.fill("X-Extra: 1");
    await editing.getByRole("button", { name: "Save" }).click();
    await editing.waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Show the secret" }).waitFor();
    await eventually("the header is there", async () => Object.keys(await headers()).length === 1);
    await page.getByRole("button", { name: "Edit", exact: true }).click();
    await editing.getByText(/^Currently: x-extra\./i).waitFor();
    await editing.getByLabel("Remove them").check();
    await editing.getByRole("button", { name: "Save" }).click();
    await editing.waitFor({ state: "detached" });
    await eventually("the header is gone", async () => Object.keys(await headers()).length === 0);

    await phone(FIFTH);
    hangs = true;
    await simulator("POST", `/phones/${FIFTH}/messages`, { to: FOURTH, type: "text", text: "for the hook" });
    await page.getByRole("link", { name: "Its deliveries" }).click();
    await page.getByLabel("message_id").pressSequentially("half a");
    await page.waitForResponse((response) => response.url().includes("/v1/webhook-deliveries?"));
    await settled(page);
    assert.equal(await page.getByLabel("message_id").inputValue(), "half a", "a poll leaves what is typed");
    await page.getByLabel("message_id").fill("");
    await page.getByLabel("Event", { exact: true }).selectOption("message.received");
    await page.getByRole("link", { name: "message.received" }).first().click();
    await page.getByText("status 500").first().waitFor();
    await page.getByText("The receiver's answer").first().click();
    await page.getByText("<script>alert(1)</script>").first().waitFor();
    await judge(page, "delivery");
    const exhausted = async () => (await api("GET", "/v1/webhook-deliveries?event=message.received&state=exhausted")).data;
    await eventually("it is given up", async () => (await exhausted()).length > 0);
    hangs = false;
    // Each attempt, with what came of it and after how long.
    const attempts = page.getByRole("main").getByRole("listitem");
    await eventually("all attempts are shown", async () => (await attempts.count()) === 4);
    // A lead that moves cuts off the one that hangs.
    const cut = /no answer within|was lost/;
    for (const [n, outcome] of [[1, "status 500"], [2, cut], [3, "status 500"], [4, "status 500"]]) {
      const attempt = attempts.filter({ hasText: new RegExp(`^\\s*${n}\\.`) });
      await attempt.getByText(outcome).first().waitFor();
      await attempt.getByText(/after [\d,]+ ms/).waitFor();
    }
    const home = page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Home", exact: true });
    const delivery = page.url();
    await home.click();
    await page.getByRole("link", { name: url }).waitFor();
    await page.getByText("started to fail").waitFor();
    await page.goto(delivery);
    status = 200;
    await page.getByRole("button", { name: "Redeliver" }).click();
    await badge(page, "delivered").waitFor();
    const last = got.filter(({ headers }) => headers["x-gateway-event"] === "message.received").at(-1);
    const [, at, signature] = last.headers["x-gateway-signature"].match(/^t=(\d+),v1=([0-9a-f]+)/);
    assert.equal(signature, createHmac("sha256", "whsec_0123456789abcdef").update(`${at}.${last.body}`).digest("hex"));

    status = 500;
    await simulator("POST", `/phones/${FIFTH}/messages`, { to: FOURTH, type: "text", text: "for the recovery" });
    await eventually("the next one is given up", async () => (await exhausted()).length === 1);
    status = 200;
    const before = got.length;
    await page.getByRole("link", { name: "Webhooks", exact: true }).click();
    await page.getByRole("link", { name: url }).click();
    await page.getByRole("button", { name: "Recover" }).click();
    await page.getByRole("button", { name: "Count them" }).click();
    await page.getByRole("button", { name: /^Recover \d/ }).click();
    await page.getByText(/^\d+ deliveries will be retried\.$/).waitFor();
    await eventually("it is delivered", async () => (await exhausted()).length === 0 && got.slice(before).some(({ body }) => body.includes("for the recovery")));
    await page.getByRole("button", { name: "Close" }).click();
    const dialog = page.getByRole("dialog");
    for (const name of ["Purge", "Delete"]) {
      await page.getByRole("main").getByRole("button", { name, exact: true }).click();
      const does = dialog.getByRole("button", { name, exact: true });
      assert.ok(await does.isDisabled(), `${name}: the name has to be typed`);
      await dialog.getByLabel(/^Type/).fill("somewhere.else");
      assert.ok(await does.isDisabled(), `${name}: another name does not do`);
      await dialog.getByLabel(/^Type/).fill(new URL(url).host);
      await does.click();
      await dialog.waitFor({ state: "detached" });
    }
    await eventually("it is deleted", async () => (await api("GET", "/v1/webhook-endpoints")).data.every((known) => known.url !== url));
    await leave();
  } finally {
    receiver.close();
    receiver.closeAllConnections();
  }
});

test("a key with two scopes works for these and nothing else, and is refused once the page says so", async () => {
  const { page, leave } = await person(browser, { permissions: ["clipboard-write"] });
  await signIn(page, place.owner);
  await page.getByRole("link", { name: "API keys" }).click();
  await page.getByRole("link", { name: "Create a key" }).click();
  await page.getByLabel("Name").fill("reader");
  await page.getByLabel("channels.read").check();
  await page.getByLabel("messages.read").check();
  await judge(page, "key");
  await page.getByRole("button", { name: "Create", exact: true }).click();
  const secret = (await page.getByRole("group", { name: "reader" }).getByText(/^zpk_/).textContent()).trim();
  await page.getByRole("group", { name: "reader" }).getByRole("button", { name: "Copy", exact: true }).click();
  // Whoever listens hears it within the dialog: nothing else is read meanwhile.
  await page.getByRole("dialog").getByRole("status").filter({ hasText: "Copied" }).waitFor();
  const status = async (path, at) => (await fetch(at.api + path, { headers: { authorization: `Bearer ${secret}` } })).status;
  assert.equal(await status("/v1/channels", node()), 200);
  assert.equal(await status("/v1/messages", node()), 200);
  assert.equal(await status("/v1/webhook-endpoints", node()), 403);
  await page.getByRole("button", { name: "Done" }).click();
  const row = page.getByRole("row", { name: /reader/ });
  await row.getByRole("button", { name: "Revoke" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
  await row.waitFor({ state: "detached" });
  for (const at of place.nodes) assert.equal(await status("/v1/channels", at), 401, `node ${at.id}`);
  await leave();
});

test("events, usage, members, audit, account and lists can be used by everybody", async () => {
  const { page, leave, asked } = await person(browser);
  await signIn(page, place.owner);
  await page.getByText("The last 24 hours").waitFor();
  await judge(page, "home");
  for (const name of ["Channels", "Deliveries", "Usage", "Members", "Audit log", "Support", "Account", "API keys"]) {
    const before = asked.length;
    await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name, exact: true }).click();
    await page.getByRole("heading", { level: 1, name }).waitFor();
    await settled(page);
    assert.ok(asked.length - before <= 6, `${name} takes ${asked.slice(before)}`);
    await judge(page, name.toLowerCase().replaceAll(" ", "-"));
  }
  await page.getByRole("link", { name: "Events", exact: true }).click();
  const id = (await api("GET", "/v1/channels?status=connected")).data[0]?.id ?? (await paired("Listed", place.phones[7]));
  await api("POST", `/v1/channels/${id}/messages`, { type: "text", to: OWN, text: "seen live" });
  await page.getByRole("button", { name: "message.sent" }).first().click();
  await page.getByRole("dialog").getByText("seen live").or(page.getByRole("dialog").getByText("message_id")).first().waitFor();
  await page.keyboard.press("Escape");
  await page.getByText("0.0 a second").waitFor();
  await judge(page, "events");
  for (const tab of ["Messages", "Status", "Settings"]) {
    await page.goto(`${node().api}/console/channel?id=${id}`);
    await page.getByRole("link", { name: tab, exact: true }).click();
    await settled(page);
    await judge(page, `channel-${tab.toLowerCase()}`);
  }
  // On a telephone the list is not below a screen of filters.
  await page.setViewportSize({ width: 360, height: 800 });
  await page.goto(`${node().api}/console/deliveries`);
  await page.getByLabel("State").waitFor();
  assert.ok(!(await page.getByLabel("http_status").isVisible()));
  await page.getByText("More filters").click();
  await page.getByLabel("http_status").fill("200");
  await page.getByLabel("http_status").press("Enter");
  await page.waitForURL(/http_status=200/);
  assert.ok(await page.getByLabel("http_status").isVisible(), "they stay unfolded");
  // The list of pages says who is signed in, and closes by Escape.
  const drawer = page.getByRole("button", { name: "Pages", exact: true });
  await drawer.press("Enter");
  await page.getByText(`Signed in as ${place.owner}`).waitFor();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Escape");
  await eventually("the focus is back at what has opened it", () => drawer.evaluate((button) => button === document.activeElement));
  assert.equal(await drawer.getAttribute("aria-expanded"), "false");
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.goto(`${node().api}/console/channel?id=${id}&tab=settings`);
  // What a channel begins with bears no mark; what is changed says what it was.
  const rejects = page.getByLabel("Reject calls");
  await rejects.waitFor();
  assert.equal(await page.getByText("the default is").count(), 0, "a new channel has the defaults");
  await rejects.check();
  await page.getByText("Reject calls (not saved yet; changed; the default is off)").waitFor();
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Reject calls (changed; the default is off)").waitFor();
  // A pause has two ends: one that is emptied leaves the other one, and is marked when it stays empty.
  const [least, most] = ["min", "max"].map((end) => page.getByLabel(new RegExp(`^Pause between sends, ${end}`)));
  await least.fill("100");
  await most.fill("300");
  await least.fill("");
  assert.equal(await most.inputValue(), "300");
  await page.getByRole("button", { name: "Save" }).click();
  await eventually("the empty one is marked", async () => (await least.getAttribute("aria-invalid")) === "true");
  assert.equal(await most.getAttribute("aria-invalid"), "false");
  await least.fill("200");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Pause between sends, min ms (changed; the default is empty)").waitFor();
  assert.deepEqual((await api("GET", `/v1/channels/${id}/settings`)).send_delay_ms, { min: 200, max: 300 });
  await page.getByRole("button", { name: "Reset to defaults" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Reset to defaults" }).click();
  await eventually("all are the defaults again", async () => (await page.getByText("the default is").count()) === 0);

  // Usage by channel has its bars, and the same numbers below; times are shown as somebody wants them.
  await page.goto(`${node().api}/console/usage`);
  await page.getByRole("img", { name: /^Messages by day/ }).waitFor();
  await page.getByLabel("By", { exact: true }).selectOption("day and channel, 30 days");
  await page.getByRole("img", { name: /^Messages by channel/ }).waitFor();
  await judge(page, "usage-by-channel");
  await page.goto(`${node().api}/console/usage?by=week`);
  const wrong = page.getByRole("alert");
  await wrong.getByText("Change this, then try again:").waitFor();
  assert.match(await wrong.textContent(), /again:group_by /, "a field is named once, and as it is written");
  await page.goto(`${node().api}/console/channels`);
  const made = page.getByRole("table", { name: "Channels" }).getByRole("time").first();
  await made.waitFor();
  assert.match(await made.textContent(), /ago|now|yesterday|in /);
  await page.getByLabel("Times").selectOption("in UTC");
  assert.match(await made.textContent(), /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/);
  await page.reload();
  await made.waitFor();
  assert.match(await made.textContent(), /^\d{4}-/);
  // Another time zone of the account is there for the times of every page at once.
  await page.goto(`${node().api}/console/account`);
  const zone = page.getByLabel("Time zone");
  const inTokyo = page.getByLabel("Times").locator("option").filter({ hasText: "in Asia/Tokyo" });
  const zoneBefore = await zone.inputValue();
  await zone.fill("Asia/Tokyo");
  await page.getByRole("button", { name: "Save" }).click();
  await inTokyo.waitFor({ state: "attached" });
  await zone.fill(zoneBefore);
  await page.getByRole("button", { name: "Save" }).click();
  await inTokyo.waitFor({ state: "detached" });
  await leave();
});

test("a viewer sees no button that changes something, and another customer's ids open nothing", async () => {
  const { page, leave } = await person(browser);
  await signIn(page, place.viewer);
  const changesNothing = async (name) => {
    await settled(page);
    // All words at once: each look works out the name of every button.
    const words = /^(Create|Add|Reset|Delete|Revoke|Send|Invite|Change role|Save|Reply|React|Write|Edit|Switch|Redeliver|Recover|Purge|Connect|Log out|Restart|Disconnect|Disable|Enable|Start)/;
    for (const role of ["button", "link"]) assert.deepEqual(await page.getByRole("main").getByRole(role, { name: words }).allTextContents(), [], name);
  };
  for (const name of ["Home", "Channels", "Webhooks", "Deliveries", "Events", "API keys", "Usage", "Members", "Audit log", "Support", "Account"]) {
    await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name, exact: true }).click();
    await page.getByRole("heading", { level: 1, name }).waitFor();
    await changesNothing(name);
  }
  // What is a member's own, a viewer changes, too.
  for (const name of ["Change the password", "Sign out everywhere"]) assert.equal(await page.getByRole("button", { name }).count(), 1, name);
  // Nor do addresses open what the buttons would.
  for (const [name, heading] of [["channels", "Channels"], ["webhooks", "Webhooks"], ["keys", "API keys"]]) {
    await page.goto(`${node().api}/console/${name}?create=1`);
    await page.getByRole("heading", { level: 1, name: heading }).waitFor();
    await settled(page);
    assert.equal(await page.getByRole("dialog").count(), 0, name);
  }
  const endpoint = await api("POST", "/v1/webhook-endpoints", { url: "http://127.0.0.1:9999/looked-at", events: ["order.placed"] });
  await page.goto(`${node().api}/console/webhooks?id=${endpoint.id}`);
  await page.getByText("which only owners and admins can see").waitFor();
  await changesNothing("a webhook");
  assert.equal(await page.getByRole("button", { name: "Show the secret" }).count(), 0, "it is the account's");
  await api("DELETE", `/v1/webhook-endpoints/${endpoint.id}`);
  const { data: deliveries } = await api("GET", "/v1/webhook-deliveries?limit=1");
  for (const delivery of deliveries) {
    await page.goto(`${node().api}/console/deliveries?id=${delivery.id}`);
    await page.getByRole("heading", { level: 2, name: "Attempts" }).waitFor();
    await changesNothing("a delivery");
  }
  const { data: channels } = await api("GET", "/v1/channels?status=connected&limit=1");
  assert.equal(channels.length, 1);
  for (const tab of ["pairing", "chats", "messages", "status", "settings"]) {
    await page.goto(`${node().api}/console/channel?id=${channels[0].id}&tab=${tab}`);
    await page.getByRole("heading", { level: 1, name: channels[0].name }).waitFor();
    await changesNothing(tab);
  }
  await page.goto(`${node().api}/console/channel?id=${channels[0].id}&tab=chats&chat=${FRIEND}`);
  await page.getByRole("region", { name: `Chat with ${FRIEND}` }).waitFor();
  await changesNothing("a conversation");
  // What is changed by hand is refused.
  const login = await fetch(`${node().api}/v1/auth/login`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ email: place.viewer, password: place.password }) });
  const { access_token } = await login.json();
  const id = channels[0].id;
  const calls = [["POST", "/v1/channels", { name: "x" }], ["PATCH", `/v1/channels/${id}`, { name: "x" }], ["DELETE", `/v1/channels/${id}`], ["POST", `/v1/channels/${id}/restart`], ["POST", `/v1/channels/${id}/messages`, { type: "text", to: OWN, text: "x" }],
    ["PATCH", `/v1/channels/${id}/settings`, { reject_calls: true }], ["POST", "/v1/webhook-endpoints", { url: "https://example.com/", events: ["*"] }], ["POST", "/v1/api-keys", { name: "x" }], ["POST", "/v1/account/members", { email: "x@example.com", role: "viewer" }], ["PATCH", "/v1/account", { name: "x" }]];
  for (const [method, path, body] of calls) {
    const answer = await fetch(`${node().api}/console/api${path}`, { method, headers: { "content-type": "application/json", authorization: `Bearer ${access_token}` }, ...(body && { body: JSON.stringify(body) }) });
    assert.equal(answer.status, 403, `${method} ${path}: ${await answer.text()}`);
  }
  // Every member may ask for help: a ticket of a viewer fails by what it says alone, and its button is there.
  const asked = await fetch(`${node().api}/console/api/v1/support/tickets`, { method: "POST", headers: { "content-type": "application/json", authorization: `Bearer ${access_token}` }, body: "{}" });
  assert.equal(asked.status, 400, await asked.text());
  await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Support", exact: true }).click();
  await page.getByRole("link", { name: "Ask for help" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
  await page.goto(`${node().api}/console/channel?id=${id}&tab=settings`);
  await page.getByRole("heading", { level: 1, name: channels[0].name }).waitFor();
  // What another customer has, from a channel that was open: nothing of either is on the page.
  const stranger = await operator("POST", "/v1/admin/customers", { name: "Stranger" });
  const headers = { "content-type": "application/json", authorization: `Bearer ${stranger.api_key.secret}` };
  const make = async (path, body) => {
    const answer = await fetch(node().api + path, { method: "POST", headers, body: JSON.stringify(body) });
    assert.equal(answer.status, 201, path);
    return (await answer.json()).id;
  };
  const open = (to) =>
    page.evaluate((to) => {
      history.pushState(null, "", to);
      dispatchEvent(new PopStateEvent("popstate"));
    }, to);
  await open(`/console/channel?id=${await make("/v1/channels", { name: "Theirs" })}`);
  await page.getByText("There is no such channel in this account.").waitFor();
  await page.getByRole("heading", { level: 1, name: "Channel", exact: true }).waitFor();
  assert.equal(await page.getByRole("heading", { name: channels[0].name }).count(), 0);
  await open(`/console/webhooks?id=${await make("/v1/webhook-endpoints", { url: "http://127.0.0.1:9999/theirs", events: ["*"] })}`);
  await page.getByText("There is no such endpoint in this account.").waitFor();
  await page.getByRole("heading", { level: 1, name: "Webhook endpoint", exact: true }).waitFor();
  assert.ok(!/theirs/i.test(await page.content()), "nothing of theirs");
  await operator("DELETE", `/v1/admin/customers/${stranger.id}`);
  await leave();
});

test("names full of markup run nothing", async () => {
  const { page, leave } = await person(browser);
  const name = `<img src=x onerror=alert(1)>"'\u202eevil`;
  await api("POST", "/v1/channels", { name });
  page.on("dialog", () => assert.fail("a script ran"));
  await signIn(page, place.owner);
  await page.getByRole("link", { name: "Channels", exact: true }).click();
  await page.getByText("⟨U+202E⟩evil").waitFor();
  // It can be deleted by what can be seen of it, and a long one makes no page too wide.
  const long = await api("POST", "/v1/channels", { name: `${"W".repeat(64)}  \u202e!` });
  await page.reload();
  await page.getByRole("link", { name: /^W+ ./ }).waitFor();
  await judge(page, "long-name-in-a-list");
  const cell = await page.getByRole("cell").filter({ has: page.getByRole("link", { name: /^W+ ./ }) }).boundingBox();
  assert.ok(cell.width < 500, `a long name takes ${cell.width} pixels of a list`);
  await page.goto(`${node().api}/console/channel?id=${long.id}&tab=status`);
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await judge(page, "long-name");
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel(/^Type W+ ! to confirm$/).fill(`${"W".repeat(64)} !`);
  await dialog.getByRole("button", { name: "Delete", exact: true }).click();
  await page.getByRole("heading", { level: 1, name: "Channels" }).waitFor();
  await leave();
});

test("two tabs share one session and one stream, and signing out in one signs out in both", async () => {
  const { page, context, leave, asked } = await person(browser);
  await signIn(page, place.owner);
  const other = await context.newPage();
  await other.goto(`${node().api}/console/channels`);
  await other.getByRole("heading", { level: 1, name: "Channels" }).waitFor();
  await page.getByText("Live updates are on.").waitFor({ state: "attached" });
  await other.getByText("Live updates are on.").waitFor({ state: "attached" });
  assert.equal(asked.filter((call) => call === "GET /console/api/v1/events").length, 1, "one stream");
  const refreshes = asked.filter((call) => call === "PUT /console/session").length;
  assert.ok(refreshes <= 1, `${refreshes} refreshes`);
  await page.reload();
  await page.getByRole("heading", { level: 1, name: "Home" }).waitFor();
  await page.route(/\/console\/session$/, (route) => (route.request().method() === "DELETE" ? route.abort("connectionreset") : route.fallback()));
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByText(/^You are still signed in/).first().waitFor();
  await page.unroute(/\/console\/session$/);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await other.getByRole("heading", { name: "Sign in" }).waitFor();
  await page.reload();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await judge(page, "sign-in");
  await page.getByLabel("E-mail address").fill(place.owner);
  await page.getByLabel("Password").fill("not the password");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("That did not match.").waitFor();
  await leave();
});

test("nobody is signed out by a node that cannot judge sessions for a while", async () => {
  const { page, leave } = await person(browser);
  await signIn(page, place.owner);
  const home = page.getByRole("heading", { level: 1, name: "Home" });
  let refusals = 2;
  const busy = { status: 503, headers: { "retry-after": "1" }, json: { error: { code: "auth_backend_unavailable", message: "keys and sessions cannot be checked right now", details: null } } };
  await page.route(/\/console\/session$/, (route) => (refusals-- > 0 ? route.fulfill(busy) : route.fallback()));
  await page.reload();
  await home.waitFor();
  refusals = 100;
  await page.reload();
  await page.getByText("The node cannot check right now whether you are signed in.").waitFor();
  await page.unroute(/\/console\/session$/);
  await page.reload();
  await home.waitFor();
  await leave();
});

test("an account whose sends are refused says so on its first page", async () => {
  const { page, leave } = await person(browser);
  const account = await api("GET", "/v1/account");
  await page.route(/\/v1\/account$/, (route) => route.fulfill({ json: { ...account, plan: { ...account.plan, status: "past_due", overdue_since: "2026-01-01T00:00:00Z" } } }));
  await signIn(page, place.owner);
  await page.getByText("A payment is overdue. You can still read, but not send until it is paid.").waitFor();
  await judge(page, "home-suspended");
  await leave();
});

test("whoever closes a dialog while its call is under way, and goes elsewhere, stays there", async () => {
  const { page, leave } = await person(browser);
  await signIn(page, place.owner);
  const pages = page.getByRole("navigation", { name: "Pages" });
  let release;
  const held = new Promise((done) => (release = done));
  await page.route(/\/v1\/channels$/, async (route) => {
    if (route.request().method() === "POST") await held;
    return route.fallback();
  });
  await pages.getByRole("link", { name: "Channels", exact: true }).click();
  await page.getByRole("link", { name: "Create a channel" }).first().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("Made slowly");
  await dialog.getByRole("button", { name: "Create", exact: true }).click();
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  await pages.getByRole("link", { name: "Members", exact: true }).click();
  await page.getByRole("heading", { level: 1, name: "Members" }).waitFor();
  release();
  await page.getByText("Made slowly was created").first().waitFor();
  assert.equal(new URL(page.url()).pathname, "/console/members");
  const [made] = (await api("GET", "/v1/channels?name=Made%20slowly")).data;
  await api("DELETE", `/v1/channels/${made.id}`);
  await leave();
});

test("a link that signs in works once", async () => {
  const { page, leave } = await person(browser);
  const login = await fetch(`${node().api}/v1/auth/login`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ email: place.owner, password: place.password }) });
  const { refresh_token } = await login.json();
  await page.goto(`${node().api}/console#sign-in=${refresh_token}`);
  await page.getByRole("heading", { level: 1, name: "Home" }).waitFor();
  assert.ok(!page.url().includes("sign-in"), "the token is out of the address");
  const again = await person(browser);
  await again.page.goto(`${node().api}/console#sign-in=${refresh_token}`);
  await again.page.getByText("This link has already been used.").waitFor({ timeout: PATIENCE });

  // Another link to the page that the tab shows already, as after a second start of the demonstration.
  const other = await (await fetch(`${node().api}/v1/auth/login`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ email: place.owner, password: place.password }) })).json();
  await again.page.goto(`${node().api}/console#sign-in=${other.refresh_token}`);
  await again.page.getByRole("heading", { level: 1, name: "Home" }).waitFor();
  assert.ok(!again.page.url().includes("sign-in"), "the token is out of the address");
  await again.leave();
  await leave();
});

test("a link signs in beside a tab whose cluster is gone", async () => {
  const { page, context, leave } = await person(browser);
  const before = await context.newPage();
  await before.goto(`${node().api}/console/licences.txt`);
  await before.evaluate((email) => {
    const channel = new BroadcastChannel("gateway-console-members");
    const token = { access: `of.${btoa(JSON.stringify({ email, role: "owner" }))}.before`, until: Date.now() + 600_000, simulatedPhones: true };
    channel.onmessage = ({ data }) => data.kind === "want-token" && channel.postMessage({ kind: "token", token });
  }, place.owner);
  const login = await fetch(`${node().api}/v1/auth/login`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ email: place.owner, password: place.password }) });
  await page.goto(`${node().api}/console#sign-in=${(await login.json()).refresh_token}`);
  await page.getByText("The last 24 hours").waitFor();
  await leave();
});

test("a newcomer pairs a number and writes from it by the keyboard alone, without a phone", async () => {
  const { page, leave } = await person(browser);
  const press = async (control, key = "Enter") => {
    await reach(page, control);
    await page.keyboard.press(key);
  };
  await page.goto(`${node().api}/console`);
  await reach(page, page.getByLabel("E-mail address"));
  await page.keyboard.type(place.owner);
  await reach(page, page.getByLabel("Password"));
  await page.keyboard.type(place.password);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "Home" }).waitFor();
  await press(page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Channels", exact: true }));
  await press(page.getByRole("link", { name: "Create a channel" }));
  await page.getByRole("dialog").waitFor();
  await page.keyboard.type("By keyboard");
  await page.keyboard.press("Enter");
  await page.getByRole("img", { name: "QR code to scan with the phone" }).waitFor();
  await judge(page, "pairing-simulated");
  await press(page.getByRole("button", { name: "Scan with a simulated phone" }));
  const connected = page.getByRole("heading", { name: "Connected" });
  await connected.waitFor();
  await eventually("whoever listens hears it", () => connected.evaluate((heading) => heading === document.activeElement));
  // A word says what it means to whoever comes by with the Tab key, until that is not wanted any more.
  await reach(page, page.getByRole("note").filter({ hasText: /^connected$/ }).first());
  await page.getByText("Ready to send and receive messages.").waitFor();
  await judge(page, "word-with-its-sentence");
  await page.keyboard.press("Escape");
  await page.getByText("Ready to send and receive messages.").waitFor({ state: "detached" });
  await press(page.getByRole("link", { name: "Send a message to yourself" }));
  await reach(page, page.getByRole("textbox", { name: "Message" }));
  await page.keyboard.type("my first message");
  await page.keyboard.press("Enter");
  const messages = page.getByRole("list", { name: "Messages, the newest last" });
  await messages.getByText("my first message").waitFor();
  await messages.getByText(/^(sent|delivered)$/).first().waitFor();
  await leave();
});

test("the first page costs little, a change of page less, and what is not looked at nothing", async () => {
  const { page, context, leave, asked } = await person(browser);
  await context.clock.install();
  const client = await context.newCDPSession(page);
  await client.send("Performance.enable", { timeDomain: "threadTicks" });
  const processor = async () => (await client.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration").value;
  await page.goto(`${node().api}/console`);
  await page.getByLabel("E-mail address").waitFor();
  const first = await processor();
  assert.ok(first < 0.5, `the first page took ${first} s of the processor`);
  await signIn(page, place.owner);
  await page.getByText("The last 24 hours").waitFor();
  await page.getByText("Live updates are on.").waitFor({ state: "attached" });
  await below("a change of page", 0.1, async () => {
    const before = await processor();
    await page.getByRole("link", { name: "Members", exact: true }).click();
    await page.getByRole("heading", { level: 1, name: "Members" }).waitFor();
    await settled(page);
    const changed = (await processor()) - before;
    await page.getByRole("link", { name: "Home", exact: true }).click();
    await page.getByText("The last 24 hours").waitFor();
    return changed;
  });

  let calls = asked.length;
  await context.clock.runFor(60_000);
  await settled(page);
  assert.ok(asked.length - calls < 30, `an open page asks ${asked.length - calls} times a minute`);

  await page.evaluate(() => {
    Object.defineProperty(document, "hidden", { get: () => true });
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await context.clock.runFor(61_000);
  calls = asked.length;
  await context.clock.runFor(600_000);
  assert.equal(asked.length - calls, 0, `a hidden tab asks for ${asked.slice(calls)}`);
  await leave();
});

test("Ctrl-K finds pages, channels by name and number, and ids, by the keyboard alone", async () => {
  const { page, leave } = await person(browser);
  const id = await paired("Needle", place.phones[7]);
  await signIn(page, place.owner);
  const find = async (text) => {
    // A page that has just come may not hear keys yet.
    await eventually("the search is there", async () => {
      await page.keyboard.press("Control+k");
      const box = page.getByRole("searchbox", { name: "What to find" });
      return box.waitFor({ timeout: 3_000 }).then(() => true, () => false);
    });
    await page.keyboard.type(text);
  };
  await find("need");
  await page.getByRole("dialog").getByRole("link", { name: /Needle/ }).waitFor();
  await judge(page, "find");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "Needle" }).waitFor();
  await find(place.phones[7].slice(-9));
  await page.getByRole("dialog").getByRole("link", { name: /Needle/ }).waitFor();
  await page.keyboard.press("Escape");
  await find(id);
  await page.getByRole("dialog").getByText("1 found").waitFor();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "Needle" }).waitFor();
  await find("audit");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "Audit log" }).waitFor();

  // It is there a moment later, or was refused once: the search is made again by itself.
  await find("hayst");
  const dialog = page.getByRole("dialog");
  await dialog.getByText("Searching").waitFor();
  await api("POST", "/v1/channels", { name: "Haystack" });
  await dialog.getByRole("link", { name: /Haystack/ }).waitFor();
  await page.keyboard.press("Escape");
  let refusals = 1;
  await page.route(/\/channels\?q=/, (route) => (refusals-- > 0 ? route.fulfill({ status: 503, json: { error: { code: "worker_at_capacity", message: "busy" } } }) : route.fallback()));
  await find("haystack");
  await dialog.getByRole("link", { name: /Haystack/ }).waitFor();
  await page.keyboard.press("Escape");
  // One that stays refused says why, and may be made again by hand.
  refusals = 10;
  await find("needle");
  await dialog.getByText("worker_at_capacity").waitFor();
  refusals = 0;
  await dialog.getByRole("button", { name: "Try again" }).click();
  await dialog.getByRole("link", { name: /Needle/ }).waitFor();
  await leave();
});

test("whoever is invited chooses a password by the link, and a password and sessions are the member's own", async () => {
  const owner = await person(browser);
  const invited = await person(browser);
  const email = `invited-${place.phones[0]}@example.com`;
  const NEW = "staple battery horse";
  await signIn(owner.page, place.owner);
  await owner.page.getByRole("link", { name: "Members", exact: true }).click();
  await owner.page.getByRole("button", { name: "Invite a member" }).click();
  const dialog = owner.page.getByRole("dialog");
  await dialog.getByLabel("E-mail address").fill(email);
  await dialog.getByLabel("Role").selectOption("viewer");
  await judge(owner.page, "invite");
  await dialog.getByRole("button", { name: "Invite" }).click();
  const link = await dialog.getByText(/#set-password=zpw_/).textContent();
  await dialog.getByRole("button", { name: "Done" }).click();
  await owner.page.getByRole("row", { name: new RegExp(email) }).getByText("invited", { exact: true }).waitFor();

  const { page } = invited;
  await page.goto(link);
  await page.getByRole("heading", { level: 1, name: "Choose a password" }).waitFor();
  assert.ok(!page.url().includes("zpw_"), "the token is out of the address");
  await judge(page, "choose-password");
  await page.getByLabel("Password").fill(NEW);
  await page.getByRole("button", { name: "Set the password" }).click();
  await page.getByText("The password is set.").waitFor();
  await page.getByLabel("E-mail address").fill(email);
  await page.getByLabel("Password").fill(NEW);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { level: 1, name: "Home" }).waitFor();
  const again = await person(browser);
  await again.page.goto(link);
  await again.page.getByLabel("Password").fill(NEW);
  await again.page.getByRole("button", { name: "Set the password" }).click();
  await again.page.getByText("This link has already been used").waitFor();
  await again.page.getByRole("button", { name: "Sign in instead" }).click();
  await again.page.getByRole("button", { name: "Forgot your password?" }).click();
  await again.page.getByLabel("E-mail address").fill(email);
  await again.page.getByRole("button", { name: "Send the message" }).click();
  await again.page.getByText("a message is on its way").waitFor();
  await judge(again.page, "forgotten");
  await again.leave();

  // Another password ends the sessions elsewhere; this one goes on.
  const elsewhere = await person(browser);
  await elsewhere.page.goto(`${node(1).api}/console`);
  await elsewhere.page.getByLabel("E-mail address").fill(email);
  await elsewhere.page.getByLabel("Password").fill(NEW);
  await elsewhere.page.getByRole("button", { name: "Sign in" }).click();
  await elsewhere.page.getByRole("heading", { level: 1, name: "Home" }).waitFor();
  await page.getByRole("link", { name: "Account", exact: true }).click();
  const sessions = page.getByRole("table").filter({ hasText: "this one" }).locator("tbody tr");
  await eventually("both are listed", async () => (await sessions.count()) === 2);
  await page.getByLabel("Current password").fill("not the password");
  await page.getByLabel("New password").fill(place.password);
  await page.getByRole("button", { name: "Change the password" }).click();
  await page.getByText("is not the member's password").first().waitFor();
  await page.getByLabel("Current password").fill(NEW);
  await page.getByRole("button", { name: "Change the password" }).click();
  await elsewhere.page.getByRole("heading", { level: 1, name: "Sign in" }).waitFor();
  await eventually("the list says that one is left", async () => (await sessions.count()) === 1);
  await elsewhere.leave();
  await page.getByRole("button", { name: "Sign out everywhere" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { level: 1, name: "Sign in" }).waitFor();

  const row = owner.page.getByRole("row", { name: new RegExp(email) });
  await owner.page.reload();
  await row.getByText("active", { exact: true }).waitFor();
  await row.getByRole("button", { name: "Change role" }).click();
  await dialog.getByLabel("Role").selectOption("member");
  await dialog.getByRole("button", { name: "Change" }).click();
  await dialog.waitFor({ state: "detached" });
  await row.getByRole("cell", { name: "member", exact: true }).waitFor();
  await row.getByRole("button", { name: "Remove" }).click();
  await dialog.getByRole("button", { name: "Remove" }).click();
  await row.waitFor({ state: "detached" });
  await invited.leave();
  await owner.leave();
});

test("a session that ends leaves the page with what was typed, and a page that breaks can be shown again", async () => {
  const { page, leave } = await person(browser);
  await signIn(page, place.owner);
  await page.goto(`${node().api}/console/support?create=1`);
  await page.getByLabel("Subject").fill("Half a question");
  const json = { "content-type": "application/json" };
  const login = await fetch(`${node().api}/v1/auth/login`, { method: "POST", headers: json, body: JSON.stringify({ email: place.owner, password: place.password }) });
  const { access_token } = await login.json();
  await fetch(`${node().api}/v1/account/sessions`, { method: "DELETE", headers: { authorization: `Bearer ${access_token}` } });
  const again = page.getByRole("dialog", { name: "Sign in" });
  await again.getByRole("heading", { level: 1, name: "Sign in" }).waitFor();
  await judge(page, "sign-in-again");
  await page.keyboard.press("Escape");
  await again.getByLabel("E-mail address").fill(place.owner);
  await again.getByLabel("Password").fill(place.password);
  await again.getByRole("button", { name: "Sign in" }).click();
  await again.waitFor({ state: "detached" });
  assert.equal(await page.getByLabel("Subject").inputValue(), "Half a question");
  await page.keyboard.press("Escape");

  // An answer that nobody expects.
  await page.route(/\/v1\/account$/, (route) => route.fulfill({ json: {} }));
  await page.getByRole("link", { name: "Home", exact: true }).click();
  await page.getByRole("heading", { name: "Something went wrong on this page" }).waitFor();
  await page.unroute(/\/v1\/account$/);
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByText("The last 24 hours").waitFor();

  // A refusal counts down, and is asked again by itself.
  let refusals = 1;
  await page.route(/\/v1\/account\/members$/, (route) =>
    refusals-- > 0 ? route.fulfill({ status: 429, headers: { "retry-after": "11" }, json: { error: { code: "rate_limited", message: "slow down", details: null } } }) : route.fallback(),
  );
  await page.getByRole("link", { name: "Members", exact: true }).click();
  await page.getByText(/Trying again in \d+ s\./).waitFor();
  await page.getByRole("table", { name: "Members" }).waitFor();
  await leave();
});

test("where a browser gives no clipboard and no locks, a text is copied by hand and tabs still take turns", async () => {
  const { page, context, leave, asked } = await person(browser);
  await context.addInitScript(() => {
    for (const name of ["clipboard", "locks"]) Object.defineProperty(Navigator.prototype, name, { get: () => undefined });
    Object.defineProperty(window, "isSecureContext", { value: false });
  });
  await page.goto(`${node().api}/console`);
  await page.getByText("You cannot sign in here.").waitFor();
  await signIn(page, place.owner);
  await page.getByText("Live updates are on.").waitFor({ state: "attached" });
  const other = await context.newPage();
  await other.goto(`${node().api}/console/account`);
  await other.getByText("Live updates are on.").waitFor({ state: "attached" });
  assert.equal(asked.filter((call) => call === "GET /console/api/v1/events").length, 1, "one stream");
  const { id } = await api("GET", "/v1/account");
  await other.getByRole("button", { name: /^Copy/ }).first().click();
  const text = other.getByRole("textbox", { name: "The text to copy" });
  assert.equal(await text.inputValue(), id);
  assert.equal(await text.evaluate((field) => field.value.slice(field.selectionStart, field.selectionEnd)), id, "all of it is selected");
  await leave();
});
