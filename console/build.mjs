// Builds `dist`: one bundle for both doors, a page for each, and every file beside its compressed forms.
// `node build.mjs` writes it; `node build.mjs --check` says where `dist` is not what the sources give. Both want its types right.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, brotliDecompressSync, constants, gunzipSync, gzipSync } from "node:zlib";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const dist = join(here, "dist");

// In bytes, of what a browser loads in gzip: a page, and its styles.
const MOST = { js: 110_000, css: 12_000 };

const named = (name, ending, bytes) =>
  `${name}-${createHash("sha256").update(bytes).digest("hex").slice(0, 12)}.${ending}`;

async function bundle(entry, ending) {
  const { outputFiles } = await build({
    entryPoints: [join(here, "src", entry)],
    bundle: true,
    minify: true,
    write: false,
    format: "esm",
    target: ["chrome109", "firefox115", "safari16.4"],
    jsx: "automatic",
    jsxImportSource: "preact",
    legalComments: "none",
    charset: "utf8",
  });
  const bytes = Buffer.from(outputFiles[0].contents);
  const packed = gzipSync(bytes, { level: 9 }).length;
  if (packed > MOST[ending]) throw new Error(`${entry}: ${packed} bytes in gzip, at most ${MOST[ending]} are allowed`);
  return [named("app", ending, bytes), bytes];
}

function page(door, { js, css, icon }) {
  const title = door === "members" ? "Gateway console" : "Gateway console for operators";
  return Buffer.from(`<!doctype html>
<html lang="en" data-door="${door}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
<link rel="icon" href="/console/assets/${icon}" type="image/svg+xml">
<link rel="stylesheet" href="/console/assets/${css}">
<script type="module" src="/console/assets/${js}"></script>
</head>
<body>
<div id="app"><noscript><p>The console needs JavaScript. Everything it does can be done through the API and the command line, too.</p></noscript></div>
</body>
</html>
`);
}

function licences() {
  const { dependencies } = JSON.parse(readFileSync(join(here, "package.json"), "utf8"));
  const names = [...Object.keys(dependencies), "@preact/signals-core"].sort();
  const parts = names.map((name) => {
    const folder = join(here, "node_modules", name);
    const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    return `${name} ${version} (${license})\n\n${readFileSync(join(folder, "LICENSE"), "utf8").trim()}\n`;
  });
  return Buffer.from(`The console contains these libraries.\n\n${parts.join(`\n${"-".repeat(72)}\n\n`)}`);
}

async function files() {
  const [js, script] = await bundle("main.tsx", "js");
  const [css, style] = await bundle("style.css", "css");
  const drawing = readFileSync(join(here, "src", "icon.svg"));
  const icon = named("icon", "svg", drawing);
  return new Map([
    [js, script],
    [css, style],
    [icon, drawing],
    ["members.html", page("members", { js, css, icon })],
    ["operators.html", page("operators", { js, css, icon })],
    ["licences.txt", licences()],
  ]);
}

const packers = [
  [".gz", (bytes) => gzipSync(bytes, { level: 9 }), gunzipSync],
  [".br", (bytes) => brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }), brotliDecompressSync],
];

function typed() {
  const tsc = join(here, "node_modules", "typescript", "bin", "tsc");
  return spawnSync(process.execPath, [tsc, "--noEmit"], { cwd: here, stdio: "inherit" }).status === 0;
}

if (!typed()) process.exit(1);
const built = await files();
if (process.argv.includes("--check")) {
  // The compressed forms differ from one version of zlib to the next; what they hold does not.
  const wrong = [];
  for (const [name, bytes] of built) {
    const stored = (end, unpack) => {
      try {
        return unpack(readFileSync(join(dist, name + end)));
      } catch {
        return undefined;
      }
    };
    for (const [end, , unpack] of [["", null, (raw) => raw], ...packers]) {
      if (!stored(end, unpack)?.equals(bytes)) wrong.push(name + end);
    }
  }
  const known = [...built.keys()].flatMap((name) => [name, ...packers.map(([end]) => name + end)]);
  wrong.push(...readdirSync(dist).filter((name) => !known.includes(name)));
  if (wrong.length > 0) {
    console.error(`console/dist is not what the sources give: ${wrong.join(", ")}; run: make console`);
    process.exit(1);
  }
} else {
  rmSync(dist, { recursive: true, force: true });
  mkdirSync(dist);
  for (const [name, bytes] of built) {
    writeFileSync(join(dist, name), bytes);
    for (const [end, pack] of packers) writeFileSync(join(dist, name + end), pack(bytes));
  }
  for (const [name, bytes] of built) console.log(`${name}: ${bytes.length} bytes, ${gzipSync(bytes, { level: 9 }).length} in gzip`);
}
