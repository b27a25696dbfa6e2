// Builds the pages into the package: `npm run build` writes the page of studies and that of reports.
import { build } from "esbuild";
import { cp, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

const STUDY = "../src/cosight/humans/web/static";
const REPORT = "../src/cosight/reports/site/static";

await bundle(STUDY, ["src/page.ts", "src/admin.ts", "src/page.css"], "esm");
await cp("icons", join(STUDY, "icons"), { recursive: true });
for (const name of ["admin.html", "index.html"]) await cp(join("src", name), join(STUDY, name));
// a classic script, which browsers load from file:// too
await bundle(REPORT, [{ in: "src/report/main.ts", out: "report" }, { in: "src/report/report.css", out: "report" }], "iife");
await cp("src/report/report.html", join(REPORT, "index.html"));

/** Bundles a page and writes the licences of what went into it. */
async function bundle(out, entryPoints, format) {
  await rm(out, { recursive: true, force: true });
  await mkdir(out, { recursive: true });
  const { metafile } = await build({
    entryPoints,
    outdir: out,
    bundle: true,
    minify: true,
    format,
    target: ["chrome109", "firefox115", "safari16"],
    legalComments: "none", // licences.txt has them all
    metafile: true,
  });
  await writeFile(join(out, "licences.txt"), await licences(Object.keys(metafile.inputs)));
}

/** The licence of every package that went into the bundle. */
async function licences(inputs) {
  const packages = new Set(inputs.map((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1]).filter(Boolean));
  const texts = [...packages].sort().map(async (name) => `${name}\n\n${(await licenceOf(name)).trim()}\n`);
  return (await Promise.all(texts)).join(`\n${"-".repeat(80)}\n\n`);
}

/** Packages that come without the text of their licence have it in licences/. */
async function licenceOf(name) {
  const folder = join("node_modules", name);
  const file = (await readdir(folder)).find((one) => /^licen[cs]e/i.test(one));
  return readFile(file ? join(folder, file) : join("licences", `${name.replace("/", "+")}.txt`), "utf8");
}
