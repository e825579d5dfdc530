// Copies the pictures of the console that the documents show, out of those that its tests have taken: `make pictures`.
import { copyFileSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const taken = process.env.GATEWAY_SCREENSHOTS ?? join(root, "target/console-screenshots");
const shown = join(root, "docs/images/console");

const pages = [join(root, "README.md"), ...readdirSync(join(root, "docs"), { recursive: true }).filter((name) => name.endsWith(".md")).map((name) => join(root, "docs", name))];
const names = new Set(pages.flatMap((page) => [...readFileSync(page, "utf8").matchAll(/images\/console\/([\w-]+\.webp)/g)].map(([, name]) => name)));
rmSync(shown, { recursive: true, force: true });
mkdirSync(shown, { recursive: true });
let bytes = 0;
for (const name of names) {
  copyFileSync(join(taken, name), join(shown, name));
  bytes += statSync(join(shown, name)).size;
}
console.log(`${names.size} pictures, ${Math.round(bytes / 1024)} KiB, in docs/images/console`);
