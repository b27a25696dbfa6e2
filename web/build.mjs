// Builds the page into the package: `npm run build` writes ../src/cosight/humans/web/static.
import { build } from "esbuild";
import { cp, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

const OUT = "../src/cosight/humans/web/static";

await rm(OUT, { recursive: true, force: true });
await mkdir(OUT, { recursive: true });
const { metafile } = await build({
  entryPoints: ["src/page.ts", "src/admin.ts", "src/page.css"],
  outdir: OUT,
  bundle: true,
  minify: true,
  format: "esm",
  target: ["chrome109", "firefox115", "safari16"],
  legalComments: "none", // licences.txt has them all
  metafile: true,
});
for (const name of ["index.html", "admin.html"]) await cp(join("src", name), join(OUT, name));
await cp("icons", join(OUT, "icons"), { recursive: true });
await writeFile(join(OUT, "licences.txt"), await licences(Object.keys(metafile.inputs)));

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
