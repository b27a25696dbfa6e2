/** The results table of a benchmark. */
import { el } from "../dom";
import { measureName } from "./charts";
import { type BenchmarkTable, groupText, type Part, type Row } from "./data";
import { fileLinks } from "./downloads";
import { type Column, sortableTable } from "./tables";
import { badge, kindOf, scoreCell, sentence, type View } from "./view";

type Line = BenchmarkTable["lines"][number];

/** The table of a benchmark, as its paper prints it, with what is said below it. */
export function benchmarkTable(view: View, part: Part, table: BenchmarkTable, rows: readonly Row[]): HTMLElement {
  const byId = new Map(rows.map((row) => [row.id, row]));
  const isQuoted = (line: Line) => line.cells.some((cell) => cell !== null && byId.get(cell[0])?.flags.includes("published"));
  const [own, quoted] = [table.lines.filter((line) => !isQuoted(line)), table.lines.filter(isQuoted)];
  const remarks = table.remarks.map(([text, id]) => el("li", {}, sentence(text), id === null || !byId.has(id) ? "" : ": ", id === null || !byId.has(id) ? "" : scoreCell(byId.get(id)!)));
  return el(
    "div",
    {},
    sortableTable(own, columnsOf(view, table, own, byId), { caption: captionOf(table), text: (line) => `${line.model} ${line.function} ${line.heading}`, most: 60, files: fileLinks(view, `${part.name}-results`) }),
    quoted.length === 0 ? null : el("details", {}, el("summary", {}, `Published values (${quoted.length} lines)`), sortableTable(quoted, columnsOf(view, table, quoted, byId), { caption: "Quoted from the benchmark's paper, not computed here", text: (line) => line.model, files: fileLinks(view, `${part.name}-results`) })),
    el("ul", { class: "small" }, ...remarks),
  );
}

/** The columns that some of the lines have a value in. */
function columnsOf(view: View, table: BenchmarkTable, lines: readonly Line[], byId: ReadonlyMap<number, Row>): Column<Line>[] {
  const columns: Column<Line>[] = [{ title: "Model", cell: (line) => el("span", {}, el("bdi", {}, line.model), badge(kindOf(view.site, line.observer))), sort: (line) => line.model }];
  if (new Set(lines.map((line) => line.heading)).size > 1) columns.push({ title: "Section", cell: (line) => el("bdi", {}, line.heading), sort: (line) => line.heading });
  if (lines.some((line) => line.function)) columns.push({ title: "Abstention", cell: (line) => line.function || "none", sort: (line) => line.function });
  table.columns.forEach((column, index) => {
    if (lines.every((line) => !line.cells[index])) return;
    const value = (line: Line) => {
      const cell = line.cells[index];
      return cell ? (byId.get(cell[0]) ?? null) : null;
    };
    columns.push({
      title: column.title,
      help: `${measureName(view, column.measure)}, ${groupText(column.group)}`,
      cell: (line) => {
        const row = value(line);
        const sd = line.cells[index]?.[1];
        const made = row === null ? "" : scoreCell(row, column.digits, sd === null || sd === undefined ? null : (byId.get(sd) ?? null));
        const rank = line.cells[index]?.[2];
        return rank === 1 ? el("span", { class: "best" }, made, " *") : rank === 2 ? el("span", { class: "second" }, made, " +") : made;
      },
      sort: (line) => value(line)?.value ?? null,
      numeric: true,
      first: view.site.measures[column.measure]?.direction === "lower" ? "ascending" : "descending",
    });
  });
  return columns;
}

function captionOf(table: BenchmarkTable): string {
  const against = table.against ? `compared with ${table.against}` : "";
  const spread = table.lines.some((line) => line.cells.some((cell) => cell !== null && cell[1] !== null)) ? `\u00b1 standard deviation over ${table.spread}` : "";
  return ["Results", against, spread, table.lines.some((line) => line.cells.some((cell) => cell?.[2])) ? "best *, second best +" : ""].filter(Boolean).join("; ");
}
