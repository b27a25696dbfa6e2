/** A table that can be sorted by any column and filtered by text. */
import { button, type Child, el } from "../dom";
import { saveButtons } from "./downloads";

export interface Column<T> {
  readonly title: string;
  readonly help?: string;
  readonly cell: (line: T) => Child;
  /** What lines are sorted by; null comes last in both directions. */
  readonly sort?: (line: T) => number | string | null;
  readonly first?: "ascending" | "descending"; // direction of the first click
  readonly numeric?: boolean;
}

export interface TableOptions<T> {
  readonly caption: string;
  readonly text: (line: T) => string; // what the filter looks at
  readonly filter?: boolean;
  readonly sorted?: { readonly column: number; readonly descending: boolean };
  readonly rowClass?: (line: T) => string;
  readonly most?: number; // lines shown before "show all"
  readonly files?: HTMLElement | null; // links to files that have the table; else what is shown can be saved
}

/** Compares two values; null comes last. */
export function compare(a: number | string | null, b: number | string | null, descending: boolean): number {
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
  const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
  return descending ? -order : order;
}

export function sortableTable<T>(lines: readonly T[], columns: readonly Column<T>[], options: TableOptions<T>): HTMLElement {
  let sorted = options.sorted ?? null;
  let wanted = "";
  let most = options.most ?? Infinity;
  const body = el("tbody");
  const status = el("p", { class: "small", role: "status" });
  const heads = columns.map((column, index) => {
    const label = el("span", {}, column.title);
    const attributes = { ...(column.help ? { title: column.help } : {}), ...(column.numeric ? { class: "number" } : {}) };
    if (column.sort === undefined) return el("th", { scope: "col", ...attributes }, label);
    const control = button(label, () => {
      const first = (column.first ?? "ascending") === "descending";
      sorted = { column: index, descending: sorted?.column === index ? !sorted.descending : first };
      fill();
    });
    return el("th", { scope: "col", ...attributes }, control);
  });

  function fill(): void {
    let shown = lines.filter((line) => options.text(line).toLowerCase().includes(wanted));
    if (sorted !== null) {
      const { column, descending } = sorted;
      const key = columns[column]!.sort!;
      shown = [...shown].sort((a, b) => compare(key(a), key(b), descending));
    }
    heads.forEach((head, index) => {
      if (sorted?.column === index) head.setAttribute("aria-sort", sorted.descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    body.replaceChildren(
      ...shown.slice(0, most).map((line) => {
        const row = el("tr", options.rowClass ? { class: options.rowClass(line) } : {});
        columns.forEach((column, index) => {
          const cell = index === 0 ? el("th", { scope: "row" }, column.cell(line)) : el("td", {}, column.cell(line));
          if (column.numeric) cell.className = "number";
          row.append(cell);
        });
        return row;
      }),
    );
    const hidden = shown.length - Math.min(shown.length, most);
    status.replaceChildren(
      wanted ? `${shown.length} of ${lines.length} lines. ` : "",
      ...(hidden > 0 ? [button(`Show ${hidden} more`, () => { most = Infinity; fill(); })] : []),
    );
  }

  /** The lines that pass the filter as plain values; what a column cannot be sorted by as its text. */
  const plain = () =>
    lines.filter((line) => options.text(line).toLowerCase().includes(wanted)).map((line) =>
      Object.fromEntries(columns.map((column) => [column.title, column.sort ? column.sort(line) : (el("span", {}, column.cell(line)).textContent ?? "")])),
    );
  const box = el("input", { type: "search", placeholder: "Filter", "aria-label": `Filter: ${options.caption}` });
  box.addEventListener("input", () => {
    wanted = box.value.toLowerCase();
    fill();
  });
  fill();
  const table = el("table", {}, el("caption", {}, options.caption), el("thead", {}, el("tr", {}, ...heads)), body);
  return el(
    "div",
    { class: "table" },
    options.filter === false && options.files ? null : el("div", { class: "tools" }, options.filter === false ? null : box, options.files ? null : saveButtons(options.caption, plain)),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": options.caption }, table),
    options.files ?? null,
    status,
  );
}
