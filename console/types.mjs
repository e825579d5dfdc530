// Writes the types of what the node answers, from its own OpenAPI documents: `node types.mjs MEMBERS.json OPERATORS.json`.
// With `--check` it says where the stored types are not those of the documents.
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import openapi, { astToString } from "openapi-typescript";

const HERE = dirname(fileURLToPath(import.meta.url));

// What the pages use; what these refer to comes along.
const USED = {
  members: [
    "Account", "ApiKey", "AuditEntry", "Channel", "Chat", "Conversation", "CreatedChannel", "CreatedWebhookEndpoint", "EndpointStats",
    "EventName", "EventType", "InvitedMember", "IssuedKey", "Limits", "MediaUpload", "Member", "MessageDelivery", "Metrics", "PairCode", "Qr", "Settings",
    "SentMessage", "Session", "SigningSecret", "StatusChange", "StatusSummary", "StoredMessage", "TestResult", "TicketView", "Usage",
    "WebhookDelivery", "WebhookDeliveryDetail", "WebhookEndpoint",
  ],
  operators: null,
};

/** The document's types alone, without its calls. */
function typesOf(document, used) {
  const { schemas } = document.components;
  const kept = {};
  const keep = (name) => {
    if (name in kept) return;
    if (!(name in schemas)) throw new Error(`no type ${name} in ${document.info.title}`);
    kept[name] = schemas[name];
    const refs = JSON.stringify(schemas[name]).matchAll(/"#\/components\/schemas\/([^"]+)"/g);
    for (const [, other] of refs) keep(other);
  };
  (used ?? Object.keys(schemas)).forEach(keep);
  return { openapi: document.openapi, info: document.info, paths: {}, components: { schemas: kept } };
}

const check = process.argv.includes("--check");
const files = process.argv.slice(2).filter((arg) => !arg.startsWith("--"));
let wrong = false;
for (const [door, file] of [["members", files[0]], ["operators", files[1]]]) {
  const document = typesOf(JSON.parse(readFileSync(file, "utf8")), USED[door]);
  const text = `// Written by types.mjs.\n${astToString(await openapi(document, { alphabetize: true, emptyObjectsUnknown: true }))}`;
  const target = join(HERE, "src", "types", `${door}.d.ts`);
  if (!check) writeFileSync(target, text);
  else if (readFileSync(target, "utf8") !== text) {
    console.error(`console/src/types/${door}.d.ts is not what the node answers`);
    wrong = true;
  }
}
process.exit(wrong ? 1 : 0);
