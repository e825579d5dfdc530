// Builds `dist`: a page and a script for each door, what both share in a part of its own, and every file beside its compressed forms.
// `node build.mjs` writes it; `node build.mjs --check` says where `dist` is not what the sources give. Both want its types right.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, brotliDecompressSync, constants, gunzipSync, gzipSync } from "node:zlib";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const dist = join(here, "dist");

// In bytes, of what a browser loads in gzip: the scripts of a page, all scripts, and the styles.
const MOST = { page: 60_000, all: 110_000, css: 12_000 };

const DOORS = ["members", "operators"];

const named = (name, ending, bytes) =>
  `${name}-${createHash("sha256").update(bytes).digest("hex").slice(0, 12)}.${ending}`;

const packed = (bytes) => gzipSync(bytes, { level: 9 }).length;

function within(what, size, most) {
  if (size > most) throw new Error(`${what}: ${size} bytes in gzip, at most ${most} are allowed`);
}

const COMMON = { bundle: true, minify: true, write: false, legalComments: "none", charset: "utf8", target: ["chrome109", "firefox115", "safari16.4"] };

/** The scripts by name, and the names of those that each door loads, its own first. */
async function scripts() {
  const { outputFiles, metafile } = await build({
    ...COMMON,
    entryPoints: DOORS.map((door) => join(here, "src", `${door}.ts`)),
    outdir: dist,
    entryNames: "[name]-[hash]",
    chunkNames: "shared-[hash]",
    splitting: true,
    metafile: true,
    format: "esm",
    jsx: "automatic",
    jsxImportSource: "preact",
    absWorkingDir: here,
  });
  const files = new Map(outputFiles.map(({ path, contents }) => [basename(path), Buffer.from(contents)]));
  const outputs = Object.entries(metafile.outputs).map(([path, output]) => [basename(path), output]);
  const size = (names) => names.reduce((sum, name) => sum + packed(files.get(name)), 0);
  const loaded = new Map(
    DOORS.map((door) => {
      const [name, { imports }] = outputs.find(([, { entryPoint }]) => entryPoint && basename(entryPoint) === `${door}.ts`);
      const names = [name, ...imports.map(({ path }) => basename(path))];
      within(`the scripts of ${door}`, size(names), MOST.page);
      return [door, names];
    }),
  );
  within("all scripts", size([...files.keys()]), MOST.all);
  return { files, loaded };
}

async function styles() {
  const { outputFiles } = await build({ ...COMMON, entryPoints: [join(here, "src", "style.css")] });
  const bytes = Buffer.from(outputFiles[0].contents);
  within("the styles", packed(bytes), MOST.css);
  return [named("app", "css", bytes), bytes];
}

/** The word before the styles is drawn while they, and the scripts, are on their way. */
function page(door, { js: [own, ...shared], css, icon }) {
  const title = door === "members" ? "Gateway console" : "Gateway console for operators";
  return Buffer.from(`<!doctype html>
<html lang="en" data-door="${door}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
<link rel="icon" href="/console/assets/${icon}" type="image/svg+xml">
<link rel="preload" as="style" href="/console/assets/${css}">
<script type="module" src="/console/assets/${own}"></script>
${shared.map((name) => `<link rel="modulepreload" href="/console/assets/${name}">\n`).join("")}</head>
<body>
<p id="loading">Loading</p>
<link rel="stylesheet" href="/console/assets/${css}">
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
  const { files: scripted, loaded } = await scripts();
  const [css, style] = await styles();
  const drawing = readFileSync(join(here, "src", "icon.svg"));
  const icon = named("icon", "svg", drawing);
  return new Map([
    ...scripted,
    [css, style],
    [icon, drawing],
    ...DOORS.map((door) => [`${door}.html`, page(door, { js: loaded.get(door), css, icon })]),
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
  for (const [name, bytes] of built) console.log(`${name}: ${bytes.length} bytes, ${packed(bytes)} in gzip`);
}
