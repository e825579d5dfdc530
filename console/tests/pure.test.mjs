// What needs no browser: times, texts of strangers, ticks, the folding of streams and of conversations, turns of tabs.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHmac } from "node:crypto";
import { test } from "node:test";
import { readFileSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const SRC = join(dirname(fileURLToPath(import.meta.url)), "../src");

// As far as the sources look at a browser while they are loaded.
const stored = new Map();
const storage = { getItem: (name) => stored.get(name) ?? null, setItem: (name, value) => stored.set(name, String(value)), removeItem: (name) => stored.delete(name) };
const events = { addEventListener() {}, removeEventListener() {} };
class Channel {
  postMessage() {}
}
const browser = {
  document: { ...events, hidden: false, documentElement: { dataset: { door: "members" } } },
  window: events,
  location: { pathname: "/console", search: "", origin: "http://127.0.0.1" },
  localStorage: storage,
  sessionStorage: storage,
  BroadcastChannel: Channel,
  // Without locks, as on plain HTTP from another machine.
  navigator: {},
};
for (const [name, value] of Object.entries(browser)) Object.defineProperty(globalThis, name, { value, configurable: true });

const { outputFiles } = await build({
  stdin: {
    contents: `
      export { ago, asUtc, csv, inZone, loadLimiter, plain, tooLong } from "./parts";
      export { asWord } from "./api";
      export { frames } from "./live";
      export { alone } from "./tabs";
      export { TICK } from "./words";
      export { ulid, inChat, withNewest } from "./pages/chats";
      export { byChannel } from "./pages/usage";
      export { SNIPPETS } from "./pages/webhooks";
      export { standings } from "./pages/timeline";
    `,
    resolveDir: SRC,
    loader: "ts",
  },
  bundle: true,
  write: false,
  format: "esm",
  platform: "node",
  jsx: "automatic",
  jsxImportSource: "preact",
});
const { SNIPPETS, TICK, ago, alone, asUtc, asWord, byChannel, csv, frames, inChat, inZone, loadLimiter, plain, standings, tooLong, ulid, withNewest } = await import(
  `data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`
);

test("a node is drawn from when it first joined, and not as down before", () => {
  const at = (ms) => new Date(ms).toISOString();
  const node = { id: 1, state: "ready", registered_at: at(60) };
  const started = { node_id: 1, action: "node.started", at: at(60) };
  const lost = { node_id: 1, action: "node.lost", at: at(80) };
  assert.deepEqual(standings(node, [started], 0, 100), [{ begin: 60, end: 100, as: "up" }]);
  assert.deepEqual(standings(node, [lost, started], 0, 100), [{ begin: 60, end: 80, as: "up" }, { begin: 80, end: 100, as: "down" }]);
  assert.deepEqual(standings({ ...node, state: "down" }, [], 70, 100), [{ begin: 70, end: 100, as: "down" }]);
});

test("what stands in a command to copy is one word of it, whatever it holds", () => {
  for (const text of ["node-4.lan:8082", "s3://bucket/prefix", "/var/back ups", "it's", "$(date); #\n\"`"]) {
    assert.equal(execFileSync("sh", ["-c", `printf %s ${asWord(text)}`], { encoding: "utf8" }), text);
  }
  assert.equal(asWord("zone-1"), "zone-1");
});

test("no text becomes markup or a script, and no element has styles of its own in markup", () => {
  const sources = readdirSync(SRC, { recursive: true, withFileTypes: true }).filter((file) => /\.tsx?$/.test(file.name) && !file.name.endsWith(".d.ts"));
  assert.ok(sources.length > 30);
  for (const { parentPath, path, name } of sources) {
    const text = readFileSync(join(parentPath ?? path, name), "utf8");
    for (const wrong of [/dangerouslySetInnerHTML/, /(inner|outer)HTML/, /insertAdjacentHTML/, /document\.write/, /\beval\(/, /new Function/, /\bstyle="/, /setTimeout\(["'`]/, /javascript:/]) {
      assert.doesNotMatch(text, wrong, name);
    }
  }
});

test("a time is told by how long ago it was, and exactly in a zone", () => {
  const now = Date.parse("2026-01-31T12:00:00Z");
  for (const [seconds, words] of [[0, "now"], [-1, "1 second ago"], [-59, "59 seconds ago"], [-60, "1 minute ago"], [-7_199, "1 hour ago"], [-86_400, "yesterday"], [30, "in 30 seconds"]]) {
    assert.equal(ago(now + seconds * 1_000, now), words);
  }
  assert.equal(inZone(new Date(now), "UTC"), "2026-01-31 12:00:00");
  assert.equal(inZone(new Date(now), "America/Sao_Paulo"), "2026-01-31 09:00:00");
  assert.equal(inZone(new Date(now), "No/Where"), "2026-01-31T12:00:00.000Z");
  assert.equal(asUtc("2026-01-31T12:00"), "2026-01-31T12:00:00.000Z", "wherever the browser is");
});

test("what strangers wrote hides nothing, and is no formula in a table", () => {
  assert.equal(plain("a\u202eb\0"), "a⟨U+202E⟩b⟨U+0000⟩");
  assert.equal(plain("👨\u200d👩 x\u200dy\r\n"), "👨\u200d👩 x⟨U+200D⟩y\r\n");
  assert.equal(csv([["=1+1", -1, null, 'a "b", c']]), `'=1+1,-1,,"a ""b"", c"`);
  assert.equal(tooLong("👍".repeat(4), 4), "");
  assert.match(tooLong("abcde", 4), /^5 characters are too many: the limit is 4/);
});

test("every status of a message has its sign and its sentence", () => {
  for (const status of ["queued", "sent", "delivered", "read", "played", "failed", "received"]) assert.ok(TICK[status]?.[1], status);
});

test("labels of sends sort by time and never repeat", () => {
  assert.match(ulid(), /^[0-9A-HJKMNP-TV-Z]{26}$/);
  assert.ok(ulid(1_000) < ulid(2_000));
  assert.equal(new Set([...Array(1_000)].map(() => ulid(5))).size, 1_000);
});

const stream = (parts) => new ReadableStream({ start: (control) => (parts.forEach((part) => control.enqueue(new TextEncoder().encode(part))), control.close()) });

test("frames of a stream come whole, wherever the network has cut them", async () => {
  const text = 'id: 1\nevent: message.sent\ndata: {"a":1}\n\n: beat\n\nid: 2\nevent: stream.gap\ndata: {\ndata: }\n\n';
  const whole = [{ id: "1", name: "message.sent", data: '{"a":1}' }, { id: "", name: "", data: "" }, { id: "2", name: "stream.gap", data: "{}" }];
  for (const size of [1, 3, 7, text.length]) {
    const parts = [...Array(Math.ceil(text.length / size))].map((_, n) => text.slice(n * size, (n + 1) * size));
    const seen = [];
    for await (const frame of frames(stream(parts), new AbortController().signal)) seen.push(frame);
    assert.deepEqual(seen, whole, `parts of ${size}`);
  }
});

test("a conversation grows by its newest page, and never has a hole", () => {
  const rows = (from, to) => [...Array(to - from)].map((_, n) => ({ id: from + n }));
  const page = (from, to, next_cursor) => ({ data: rows(from, to).reverse(), next_cursor });
  let kept = withNewest({ rows: [], cursor: null }, page(10, 20, "older"));
  assert.deepEqual(kept, { rows: rows(10, 20), cursor: "older" });
  kept = withNewest(kept, page(15, 25, "other"));
  assert.deepEqual(kept, { rows: rows(10, 25), cursor: "older" });
  kept = withNewest(kept, page(40, 50, "far"));
  assert.deepEqual(kept, { rows: rows(40, 50), cursor: "far" }, "what does not join is forgotten");
});

test("an event belongs to the chat that it names", () => {
  assert.ok(inChat({ chat_id: "4915@s.whatsapp.net" }, "4915"));
  assert.ok(inChat({ from: "1@lid", from_phone: "4915" }, "4915@s.whatsapp.net"));
  assert.ok(!inChat({ to: "4916@s.whatsapp.net" }, "4915"));
  assert.ok(inChat({ message_id: "x" }, "4915"), "one that names none may be of any");
});

test("days of a channel are one bar, and the channel with most messages comes first", () => {
  const row = (channel_id, sent, received, failed) => ({ channel_id, sent, received, failed });
  const folded = byChannel([row("a", 1, 1, 0), row("b", 5, 0, 0), row("a", 2, 0, 3)]);
  assert.deepEqual(folded, [row("a", 3, 1, 3), row("b", 5, 0, 0)]);
});

test("without locks two tabs take turns by a lease, and one that gives up leaves the other alone", async () => {
  let within = 0;
  const turns = [];
  const work = (name) => async (waited) => {
    assert.equal(++within, 1, "one at a time");
    await new Promise((done) => setTimeout(done, 120));
    within--;
    turns.push([name, waited]);
  };
  const after = (ms) => new Promise((done) => setTimeout(done, ms));
  const first = alone("test", work("first"));
  await after(70);
  const gone = new AbortController();
  const late = alone("test", work("gone"), gone.signal).catch((error) => error.name);
  const second = alone("test", work("second"));
  gone.abort();
  await Promise.all([first, second]);
  assert.equal(await late, "AbortError");
  assert.deepEqual(turns, [["first", false], ["second", true]]);
  const begun = new AbortController();
  const stopped = alone("test", work("stopped"), begun.signal).catch((error) => error.name);
  begun.abort();
  assert.equal(await stopped, "AbortError", "its turn had not begun");
  assert.equal(stored.size, 0, "nothing is left of the leases");
});

test("the code that verifies a signature takes either of two, and no other", () => {
  const [secret, body] = ['whsec_"$1#{2}', '{"a":"ä"}'];
  const at = Math.floor(Date.now() / 1000);
  const signed = (by, time = at) => createHmac("sha256", by).update(`${time}.${body}`).digest("hex");
  const cases = [
    [`t=${at},v1=${signed(secret)}`, true],
    [`t=${at},v1=${signed(secret)},v1=${signed("another")}`, true],
    [`t=${at},v1=${signed("another")},v1=${signed(secret)}`, true],
    [`t=${at},v1=${signed("another")}`, false],
    [`t=${at - 400},v1=${signed(secret, at - 400)}`, false],
  ];
  const code = (language) => SNIPPETS.find(([name]) => name === language)[1](secret);
  const calls = (line) => cases.map(([header, truth]) => line(JSON.stringify(header), truth)).join("\n");
  const python = `${code("Python")}\n${calls((header, truth) => `assert verify('${body}'.encode(), ${header}) is ${truth ? "True" : "False"}`)}`;
  execFileSync("python3", ["-c", python], { stdio: "inherit" });
  const node = `${code("Node.js")}\n${calls((header, truth) => `if (verify('${body}', ${header}) !== ${truth}) throw new Error(${header});`)}`;
  execFileSync(process.execPath, ["--input-type=module", "-e", node], { stdio: "inherit" });
});

test("what somebody watches is loaded at once, and events without an end cost the node a load in two seconds", () => {
  const loads = loadLimiter(2_000);
  const times = [];
  for (let now = 0; now < 60_000; now += loads.pause(now)) {
    times.push(now);
    loads.began(now);
  }
  // A send, its ticks, and the answer to it.
  assert.ok(times[5] < 1_000, `the sixth load comes after ${times[5]} ms`);
  assert.ok(times.length < 40, `${times.length} loads in a minute`);
  assert.equal(times.at(-1) - times.at(-2), 2_000);
  // Loads that somebody asks for keep what follows events from coming no longer than that.
  for (let n = 0; n < 100; n++) loads.began(60_000);
  assert.equal(loads.pause(60_000), 2_000);
  // A while without events, and the next ones are heard of at once.
  assert.equal(loads.pause(80_000), 150);
});
