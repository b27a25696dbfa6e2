/** One part of the report: a benchmark, or a comparison, with its verdict, charts and tables. */
import { type Child, el } from "../dom";
import { bars, type Cell, heatmap, keyedDots, lines, measureName, type Point, scatter } from "./charts";
import { benchmarkTable } from "./benchmark";
import { type Chart, groupPairs, groupText, loadRows, type Part, partRows, type Row } from "./data";
import { fileLinks } from "./downloads";
import { contactSheet } from "./sheet";
import { isTable, leaderboard, simulatedNote } from "./overview";
import { sortableTable } from "./tables";
import { heading, kindGroup, missing, notices, POOLS, scoreCell, sentence, titleOf, type View } from "./view";

const MOST_LINES = 8; // curves of a chart
const MOST_BARS = 20;
const MOST_CELLS = 60; // lines of a heatmap

export async function partPage(view: View, name: string): Promise<HTMLElement> {
  const part = view.site.parts.find((one) => one.name === name);
  if (part === undefined) return missing(`There is no part ${name}.`);
  const own = partRows(view.rows, part);
  const needsPairs = part.sections.some((section) => section.charts.some((chart) => chart.kind.startsWith("pair"))) || part.benchmark === null;
  const pairs = needsPairs ? partRows(await loadRows("pairs"), part) : [];
  const sections: Child[] = [];
  for (const section of part.sections) {
    sections.push(el("h2", {}, section.title), el("p", {}, section.text));
    for (const chart of section.charts) sections.push(await draw(view, part, chart, own, pairs));
    if (section.name === "table" && part.table !== undefined) sections.push(benchmarkTable(view, part, part.table, own));
  }
  if (part.sections.length === 0) {
    for (const measure of part.ranked) sections.push(pairGrid(view, part, pairs, measure, `${measureName(view, measure)} of every two observers`));
  }
  const correlations = own.filter((row) => row.measure.endsWith("_correlation"));
  return el(
    "main",
    {},
    heading(part.title),
    el("p", {}, part.text, part.source === null ? "" : ` Source: ${part.source}.`),
    part.verdict ? el("p", { class: "verdict" }, sentence(part.verdict)) : null,
    simulatedNote(part),
    ...sections,
    correlations.length > 0 ? correlationTable(view, part, correlations) : null,
    ...(part.sections.some((section) => section.name === "table") && isTable(view, part) ? [] : [el("h2", {}, "Leaderboard"), leaderboard(view, part)]),
    fileLinks(view, `${part.name}-pairs`) === null ? null : el("p", {}, "Every two observers:"),
    fileLinks(view, `${part.name}-pairs`),
    notices(part.notices),
  );
}

/** The rows that a chart shows: of its measure, in groups that have its key and the values it asks for. */
export function chartRows(chart: Chart, rows: readonly Row[], key: string): Row[] {
  const where = groupPairs(chart.where);
  return rows.filter((row) => {
    if (row.measure !== chart.measure || row.statistic !== "value") return false;
    const pairs = new Map(groupPairs(row.group));
    return pairs.has(key) && where.every(([name, values]) => values.split(",").includes(pairs.get(name) ?? ""));
  });
}

async function draw(view: View, part: Part, chart: Chart, rows: readonly Row[], pairs: readonly Row[]): Promise<Child> {
  const axis = measureName(view, chart.measure);
  let hidden = 0; // observers that there is no room for
  const first = (shown: readonly Row[], most: number): Row[] => {
    const kept = foremost(view, part, shown, most);
    hidden = drawable(view, shown).length - new Set(kept.map((row) => row.observer)).size;
    return kept;
  };
  const made = await (async (): Promise<Child> => {
    if (chart.kind === "pictures") return contactSheet(view, part);
    if (chart.kind === "sheet") return sheetPicture(part, chart.title);
    if (chart.kind === "pairs") return pairGrid(view, part, pairs, chart.measure, chart.title);
    if (chart.kind === "pair-scatter") return pairScatter(view, part, pairs, chart);
    if (chart.kind === "scatter") return pointChart(view, part, rows, chart);
    const all = chartRows(chart, rows, chart.x);
    const shown = chart.kind === "lines" ? all.filter((row) => new Map(groupPairs(row.group)).get(chart.x) !== "*") : all;
    if (shown.length === 0) return null;
    if (chart.kind === "lines") return lines(view, chart.title, first(shown, MOST_LINES), chart.x, axis, chart.facet);
    if (chart.kind === "bars") return bars(view, chart.title, first(shown, MOST_BARS), chart.x, axis);
    if (chart.kind === "dots") return keyedDots(view, chart.title, first(shown, MOST_BARS), chart.x, axis);
    const observers = order(view, part, [...new Set(shown.map((row) => row.observer))]).slice(0, MOST_CELLS);
    const cells: Cell[] = shown.map((row) => ({ x: new Map(groupPairs(row.group)).get(chart.x)!, y: row.observer, row }));
    const columns = [...new Set(cells.map((cell) => cell.x))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    return heatmap(view, chart.title, cells.filter((cell) => observers.includes(cell.y)), columns, observers, axis);
  })();
  const more = hidden > 0 ? `People and those that rank first are drawn; ${hidden} more observers are not.` : "";
  return made === null ? null : el("div", {}, made, el("p", { class: "small" }, [chart.text, more].filter(Boolean).join(" ")));
}

/** The contact sheet that the benchmark itself draws. */
function sheetPicture(part: Part, title: string): Child {
  if (part.sheet === null) return null;
  return el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": title }, el("img", { src: part.sheet, alt: title, class: "contact-sheet" }));
}

/** Observers by rank, or as the table has them; people first. */
function order(view: View, part: Part, observers: readonly string[]): string[] {
  const ranks = new Map(partRows(view.rows, part).filter((row) => row.statistic === "rank" && row.measure === part.measure && row.group === part.group).map((row) => [row.observer, row.value ?? Infinity]));
  const lines = new Map((part.table?.lines ?? []).map((line, index) => [line.observer, index]));
  const position = (name: string) => (kindGroup(view.site, name) !== "models" ? -1 : (ranks.get(name) ?? lines.get(name) ?? Number.MAX_SAFE_INTEGER));
  return [...observers].sort((a, b) => position(a) - position(b) || a.localeCompare(b, "en", { numeric: true }));
}

/** Observers of a chart: models and people pooled; single people are in the tables. */
function drawable(view: View, rows: readonly Row[]): string[] {
  return [...new Set(rows.map((row) => row.observer))].filter((name) => POOLS.includes(name) || kindGroup(view.site, name) === "models");
}

/** Rows of people and of the observers that rank first, in this order; the others are in the table. */
function foremost(view: View, part: Part, rows: readonly Row[], most: number): Row[] {
  const names = order(view, part, drawable(view, rows)).slice(0, most);
  return names.flatMap((name) => rows.filter((row) => row.observer === name));
}

function pairGrid(view: View, part: Part, pairs: readonly Row[], measure: string, title: string): Child {
  const shown = pairs.filter((row) => row.measure === measure && row.statistic === "value" && row.group === part.group);
  if (shown.length === 0) return null;
  const names = order(view, part, [...new Set(shown.flatMap((row) => [row.observer, row.against!]))]);
  if (names.length > MOST_CELLS) return el("p", {}, `${names.length} observers are too many for a grid of pairs; the observers' pages list them.`);
  const cells = shown.flatMap((row) => [{ x: row.against!, y: row.observer, row }, { x: row.observer, y: row.against!, row }]);
  return heatmap(view, title, cells, names, names, measureName(view, measure));
}

function pairScatter(view: View, part: Part, pairs: readonly Row[], chart: Chart): Child {
  const values = (measure: string) => new Map(pairs.filter((row) => row.measure === measure && row.statistic === "value" && row.group === part.group).map((row) => [`${row.observer}\n${row.against}`, row]));
  const [xs, ys] = [values(chart.x), values(chart.y)];
  const points: Point[] = [];
  for (const [key, x] of xs) {
    const y = ys.get(key);
    const kinds = [kindGroup(view.site, x.observer), kindGroup(view.site, x.against!)].sort();
    if (y !== undefined) points.push({ label: key.replace("\n", " and "), x, y, kind: kinds[0] === kinds[1] ? `${kinds[0]} with each other` : `${kinds[0]} with ${kinds[1]}` });
  }
  return points.length === 0 ? null : scatter(chart.title, points, measureName(view, chart.x), measureName(view, chart.y));
}

function pointChart(view: View, part: Part, rows: readonly Row[], chart: Chart): Child {
  const [first = "", second = ""] = chart.where.split("|");
  const values = (measure: string, group: string) => new Map(rows.filter((row) => row.measure === measure && row.statistic === "value" && row.group === group && !row.flags.includes("sweep")).map((row) => [row.observer, row]));
  const [xs, ys] = [values(chart.x, first), values(chart.y, second)];
  const ranked = new Set(rows.filter((row) => row.statistic === "rank" && row.measure === part.measure && row.group === part.group).map((row) => row.observer));
  const points: Point[] = [];
  for (const [name, x] of xs) {
    const y = ys.get(name);
    if (y === undefined || (ranked.size > 0 && !ranked.has(name))) continue;
    const title = titleOf(view.site, name);
    points.push({ label: title, x, y, kind: title.includes("#") ? title.split("#").at(-1)! : kindGroup(view.site, name) });
  }
  return points.length === 0 ? null : scatter(chart.title, points, measureName(view, chart.x), measureName(view, chart.y));
}

function correlationTable(view: View, part: Part, rows: readonly Row[]): HTMLElement {
  return sortableTable(
    rows,
    [
      { title: "Measures", cell: (row) => `${measureName(view, row.observer)} and ${measureName(view, row.against ?? "")}`, sort: (row) => row.observer },
      { title: "Group", cell: (row) => el("bdi", {}, groupText(row.group)), sort: (row) => row.group },
      { title: "Statistic", cell: (row) => measureName(view, row.measure), sort: (row) => row.measure },
      { title: "Value", cell: (row) => scoreCell(row), sort: (row) => row.value, numeric: true, first: "descending" },
      { title: "n", cell: (row) => String(row.n), sort: (row) => row.n, numeric: true },
    ],
    { caption: "Correlations between measures", text: (row) => `${row.observer} ${row.against} ${row.group}`, filter: false, files: fileLinks(view, `${part.name}-correlations`) },
  );
}

