/** Downloads of tables: the files that were written with the report, or what a table shows. */
import { button, el } from "../dom";
import type { View } from "./view";

const FORMATS = ["csv", "json", "parquet"] as const;

/** Links to the files of a table; null where there are none. */
export function fileLinks(view: View, name: string, label = "Download: "): HTMLElement | null {
  const table = view.site.tables.find((one) => one.name === name);
  if (table === undefined) return null;
  const links = FORMATS.flatMap((format) => {
    const file = table[format];
    return file === null ? [] : [el("a", { href: file, download: "", "aria-label": `${table.title} as ${format.toUpperCase()}` }, format.toUpperCase()), " "];
  });
  return el("p", { class: "small downloads" }, label, ...links);
}

export type Cells = Readonly<Record<string, string | number | null>>;

/** A table as CSV; texts are quoted where they need to be. */
export function csvText(lines: readonly Cells[]): string {
  const cell = (value: string | number | null | undefined) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const names = [...new Set(lines.flatMap((line) => Object.keys(line)))];
  return [names, ...lines.map((line) => names.map((name) => line[name]))].map((line) => line.map(cell).join(",")).join("\n") + "\n";
}

/** Buttons that save what a table shows. */
export function saveButtons(caption: string, lines: () => readonly Cells[]): HTMLElement {
  const save = (suffix: string, type: string, text: string) => {
    const address = URL.createObjectURL(new Blob([text], { type }));
    const link = el("a", { href: address, download: `${caption.replace(/[^\w-]+/g, "-").slice(0, 60)}.${suffix}` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  };
  return el(
    "span",
    { class: "small downloads" },
    button("CSV", () => save("csv", "text/csv", csvText(lines())), { "aria-label": `Download as CSV: ${caption}` }),
    " ",
    button("JSON", () => save("json", "application/json", JSON.stringify(lines(), null, 1)), { "aria-label": `Download as JSON: ${caption}` }),
  );
}
