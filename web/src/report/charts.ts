/** Charts, drawn with Observable Plot as SVG. They show rows; nothing is computed. */
import * as Plot from "@observablehq/plot";
import { type Child, el } from "../dom";
import { groupPairs, type Row } from "./data";
import { kindGroup, titleOf, type View } from "./view";

export const COLOURS: Readonly<Record<string, string>> = {
  people: "var(--people)",
  "simulated people": "var(--simulated)",
  models: "var(--models)",
};
const SERIES = Array.from({ length: 8 }, (_, index) => `var(--series-${index})`); // readable on light and dark, for colour-blind readers too
const SYMBOLS = ["circle", "square", "triangle", "diamond", "cross", "star", "wye", "hexagon"];
const MARKS = ["\u25cf", "\u25a0", "\u25b2", "\u25c6", "\u271a", "\u2605", "Y", "\u2b22"]; // the symbols as characters, for legends
const LONGEST = 32;

/** A text of limited length: the middle is left out, or the start where there is little room, because long names often differ at their ends. */
export function shorten(text: string, longest = LONGEST): string {
  const tail = longest < 24 ? longest - 1 : Math.floor(longest / 3);
  return text.length <= longest ? text : `${text.slice(0, longest - 1 - tail)}\u2026${text.slice(-tail)}`;
}

/** The name of an observer in a chart; simulated people are called so. */
function nameOf(view: View, name: string, longest = LONGEST): string {
  const title = titleOf(view.site, name);
  const note = kindGroup(view.site, name) === "simulated people" && !title.includes("simulated") ? " (simulated)" : "";
  return shorten(title, longest - note.length) + note;
}

function frame(title: string, plot: Element, ...children: Child[]): HTMLElement {
  for (const svg of plot.matches("svg") ? [plot] : plot.querySelectorAll("svg[aria-label]")) {
    svg.setAttribute("role", "img"); // one picture with a name; its marks have none
    for (const mark of svg.querySelectorAll("[aria-label]")) mark.removeAttribute("aria-label");
  }
  const scroll = el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": title }, plot);
  return el("figure", { class: "chart" }, el("figcaption", {}, title), scroll, ...children);
}

const base = { style: { background: "none", color: "var(--text)", fontSize: "12px", overflow: "visible" } };

function width(): number {
  return Math.max(320, Math.min(900, document.documentElement.clientWidth - 64));
}

/** The scale of an axis that has one value only; others have their own. */
function scale(values: readonly (number | null)[]): { domain?: [number, number] } {
  const [least, most] = [Math.min(...values.map((value) => value ?? Infinity)), Math.max(...values.map((value) => value ?? -Infinity))];
  return least === most ? { domain: [least - 0.1, most + 0.1] } : {};
}

export interface Line {
  readonly label: string;
  readonly value: number;
}

/** One value with its interval per observer, and lines for ceiling and chance. */
export function dots(view: View, title: string, rows: readonly Row[], axis: string, lines: readonly Line[]): HTMLElement {
  const shown = rows.filter((row) => row.value !== null);
  const names = new Map(shown.map((row, index) => [`${index}`, row.observer]));
  const data = shown.map((row, index) => ({ ...row, key: `${index}`, kind: kindGroup(view.site, row.observer) }));
  const label = (key: string) => nameOf(view, names.get(key) ?? key, width() < 500 ? 18 : LONGEST);
  const plot = Plot.plot({
    ...base,
    ariaLabel: title,
    ariaDescription: `${shown.length} observers; the table below has the same numbers`,
    width: width(),
    marginLeft: width() < 500 ? 145 : 240,
    marginTop: 34,
    marginBottom: 40,
    height: 76 + 20 * data.length,
    x: { label: axis, grid: true, nice: true, ...scale([...data.flatMap((row) => [row.value, row.low ?? row.value, row.high ?? row.value]), ...lines.map((line) => line.value)]) },
    y: { domain: data.map((row) => row.key), tickFormat: label, label: null },
    marks: [
      Plot.ruleX(lines, { x: "value", stroke: "currentColor", strokeDasharray: "4 3" }),
      ...lines.map((line, index) => Plot.text([line], { x: "value", text: "label", frameAnchor: "top", dy: -20 + 13 * index, fill: "currentColor", lineAnchor: "bottom" })),
      Plot.ruleY(
        data.filter((row) => row.low !== null && row.high !== null),
        { y: "key", x1: "low", x2: "high", stroke: (row) => COLOURS[row.kind], strokeWidth: 2 },
      ),
      Plot.dot(data, { y: "key", x: "value", fill: (row) => COLOURS[row.kind], r: 4 }),
      Plot.tip(data, Plot.pointerY({ x: "value", y: "key", title: (row) => tipText(row) })),
    ],
  });
  return frame(title, plot);
}

function tipText(row: Row): string {
  const interval = row.low === null || row.high === null ? "" : ` [${row.low.toFixed(3)}, ${row.high.toFixed(3)}]`;
  const who = row.against === null ? row.observer : `${row.observer} with ${row.against}`;
  return `${shorten(who, 60)}\n${row.value?.toFixed(3) ?? "undefined"}${interval}\n${row.group}`;
}

/** A curve per observer over the values of a key of the group; with a facet, one panel per value of another key. */
export function lines(view: View, title: string, rows: readonly Row[], x: string, axis: string, facet = ""): HTMLElement {
  const data = rows
    .filter((row) => row.value !== null)
    .map((row) => {
      const pairs = new Map(groupPairs(row.group));
      return { ...row, at: pairs.get(x) ?? "", part: facet ? (pairs.get(facet) ?? "") : "" };
    });
  type Point = (typeof data)[number];
  const observers = [...new Set(data.map((row) => row.observer))];
  const numeric = data.every((row) => row.at.trim() !== "" && Number.isFinite(Number(row.at)));
  const at = (row: Point) => (numeric ? Number(row.at) : row.at);
  const style = (name: string) => seriesStyle(view, observers, name);
  data.sort((a, b) => (numeric ? Number(a.at) - Number(b.at) : 0));
  const places = (part: string) => new Set(data.filter((row) => row.part === part).map((row) => row.at)).size;
  const all = [...new Set(data.map((row) => row.part))].sort((a, b) => Number(b === "*") - Number(a === "*") || a.localeCompare(b, "en", { numeric: true }));
  const parts = all.some((part) => places(part) > 1) ? all.filter((part) => places(part) > 1) : all;
  const shown = data.filter((row) => parts.includes(row.part));
  const steps = [...new Set(shown.map((row) => row.at))];
  const ends = shown.flatMap((row) => [row.value!, row.low ?? row.value!, row.high ?? row.value!]);
  const panel = (own: readonly Point[], part: string) =>
    Plot.plot({
      ...base,
      ariaLabel: part ? `${title}: ${part}` : title,
      ariaDescription: "the tables have the same numbers",
      width: facet ? Math.min(300, width()) : width(),
      height: facet ? 210 : 340,
      marginLeft: facet ? (Math.max(...ends.map(Math.abs)) < 1000 ? 42 : 58) : 70,
      marginBottom: 42,
      x: {
        label: x.replaceAll("_", " "), grid: true,
        ...(numeric ? { type: "linear" as const, domain: [Math.min(...steps.map(Number)), Math.max(...steps.map(Number))] } : { type: "point" as const, domain: steps }),
        ...(numeric && steps.length <= 8 ? { ticks: steps.map(Number) } : {}), tickFormat: String,
      },
      y: { label: axis, grid: true, nice: true, domain: [Math.min(...ends), Math.max(...ends)], ...scale(ends) },
      marks: [
        Plot.ruleX(own.filter((row) => row.low !== null && row.high !== null), { x: at, y1: "low", y2: "high", stroke: (row) => style(row.observer).colour, strokeOpacity: 0.45 }),
        Plot.line(own, { x: at, y: "value", z: "observer", stroke: (row) => style(row.observer).colour, strokeWidth: 2 }),
        Plot.dot(own, { x: at, y: "value", fill: (row) => style(row.observer).colour, r: 3.5, symbol: (row: Point) => style(row.observer).symbol }),
        Plot.tip(own, Plot.pointer({ x: at, y: "value", title: tipText })),
      ],
    });
  const key = legend(observers.map((name) => [nameOf(view, name, 60), style(name).colour, style(name).mark]));
  if (!facet) return frame(title, panel(shown, ""), key);
  const panels = parts.map((part) => {
    const name = part === "*" ? `mean over ${facet}s` : `${facet} ${part.replaceAll("_", " ")}`;
    return el("div", { class: "panel" }, el("h4", {}, el("bdi", {}, shorten(name))), panel(shown.filter((row) => row.part === part), name));
  });
  return frame(title, el("div", { class: "panels" }, ...panels), key);
}

/** Colour and symbol of an observer among others; people and simulated people have colours of their own. */
function seriesStyle(view: View, observers: readonly string[], name: string): { colour: string; symbol: string; mark: string } {
  const index = observers.indexOf(name) % SYMBOLS.length;
  const kind = kindGroup(view.site, name);
  return { colour: kind === "models" ? SERIES[index % SERIES.length]! : COLOURS[kind]!, symbol: SYMBOLS[index]!, mark: MARKS[index]! };
}

/** Names with their colours, and with their symbols where the chart has some. */
function legend(entries: readonly (readonly [name: string, colour: string, mark?: string])[]): HTMLElement {
  const items = entries.map(([name, colour, mark]) => {
    const key = mark === undefined ? el("span", { class: "swatch", style: `background:${colour}`, "aria-hidden": "true" }) : el("span", { class: "mark", style: `color:${colour}`, "aria-hidden": "true" }, mark);
    return el("li", {}, key, el("bdi", {}, name));
  });
  return el("ul", { class: "legend" }, ...items);
}

/** Bars per value of a key of the group, one colour per observer or kind of action. */
export function bars(view: View, title: string, rows: readonly Row[], x: string, axis: string): HTMLElement {
  const data = rows
    .filter((row) => row.value !== null)
    .map((row) => ({ ...row, at: new Map(groupPairs(row.group)).get(x) ?? "" }));
  const kinds = [...new Set(data.map((row) => row.at))];
  const plot = Plot.plot({
    ...base,
    ariaLabel: title,
    width: width(),
    marginLeft: width() < 500 ? 145 : 240,
    marginBottom: 40,
    height: 76 + 22 * new Set(data.map((row) => row.observer)).size,
    x: { label: axis, grid: true },
    y: { domain: [...new Set(data.map((row) => row.observer))], label: null, tickFormat: (name: string) => nameOf(view, name, width() < 500 ? 18 : LONGEST) },
    marks: [
      Plot.barX(data, {
        y: "observer", x: "value", fill: (row) => SERIES[kinds.indexOf(row.at) % SERIES.length],
        title: tipText, insetTop: 2, insetBottom: 2,
      }),
      Plot.ruleX([0]),
    ],
  });
  return frame(title, plot, legend(kinds.map((kind, index) => [kind.replaceAll("_", " "), SERIES[index % SERIES.length]!])));
}

/** A line per observer, and on it a value with its interval for each value of a key of the group. */
export function keyedDots(view: View, title: string, rows: readonly Row[], x: string, axis: string): HTMLElement {
  const data = rows
    .filter((row) => row.value !== null)
    .map((row) => ({ ...row, at: new Map(groupPairs(row.group)).get(x) ?? "" }));
  const kinds = [...new Set(data.map((row) => row.at))];
  const names = [...new Set(data.map((row) => row.observer))];
  const shift = (kind: string) => 5 * (kinds.indexOf(kind) - (kinds.length - 1) / 2);
  const colour = (kind: string) => SERIES[kinds.indexOf(kind) % SERIES.length]!;
  const plot = Plot.plot({
    ...base,
    ariaLabel: title,
    width: width(),
    marginLeft: width() < 500 ? 145 : 240,
    marginBottom: 40,
    height: 76 + Math.max(22, 7 * kinds.length + 8) * names.length,
    x: { label: axis, grid: true, nice: true, ...scale(data.flatMap((row) => [row.value, row.low ?? row.value, row.high ?? row.value])) },
    y: { domain: names, label: null, tickFormat: (name: string) => nameOf(view, name, width() < 500 ? 18 : LONGEST) },
    marks: kinds.flatMap((kind) => {
      const own = data.filter((row) => row.at === kind);
      const bounded = own.filter((row) => row.low !== null && row.high !== null);
      return [
        Plot.ruleY(bounded, { y: "observer", x1: "low", x2: "high", dy: shift(kind), stroke: colour(kind), strokeWidth: 2 }),
        Plot.dot(own, { y: "observer", x: "value", dy: shift(kind), fill: colour(kind), r: 4, title: tipText, symbol: SYMBOLS[kinds.indexOf(kind) % SYMBOLS.length] as Plot.SymbolType }),
      ];
    }),
  });
  return frame(title, plot, legend(kinds.map((kind, index) => [kind.replaceAll("_", " "), colour(kind), MARKS[index % MARKS.length]!])));
}

export interface Point {
  readonly label: string;
  readonly x: Row;
  readonly y: Row;
  readonly kind: string;
}

export function scatter(title: string, points: readonly Point[], x: string, y: string): HTMLElement {
  const data = points.filter((point) => point.x.value !== null && point.y.value !== null);
  const kinds = [...new Set(data.map((point) => point.kind))];
  const colour = (point: Point) => COLOURS[point.kind] ?? SERIES[kinds.indexOf(point.kind) % SERIES.length];
  const at = { x: (point: Point) => point.x.value, y: (point: Point) => point.y.value };
  const plot = Plot.plot({
    ...base,
    ariaLabel: title,
    width: width(),
    height: 390,
    marginLeft: 70,
    marginBottom: 42,
    x: { label: x, grid: true, nice: true, ...scale(data.map((point) => point.x.value)) },
    y: { label: y, grid: true, nice: true, ...scale(data.map((point) => point.y.value)) },
    marks: [
      Plot.dot(data, { ...at, fill: colour, r: data.length > 200 ? 2 : 4, fillOpacity: data.length > 200 ? 0.5 : 1,
        symbol: (point: Point) => SYMBOLS[kinds.indexOf(point.kind) % SYMBOLS.length] }),
      Plot.tip(data, Plot.pointer({ ...at, title: (point) =>
        `${shorten(point.label, 60)}\n${x}: ${point.x.value!.toFixed(3)}\n${y}: ${point.y.value!.toFixed(3)}` })),
    ],
  });
  return frame(title, plot, legend(kinds.map((kind, index) => [kind, COLOURS[kind] ?? SERIES[index % SERIES.length]!, MARKS[index % MARKS.length]!])));
}

export interface Cell {
  readonly x: string;
  readonly y: string;
  readonly row: Row;
}

/** A grid of colours with numbers. */
export function heatmap(view: View, title: string, cells: readonly Cell[], columns: readonly string[], lines: readonly string[], axis: string): HTMLElement {
  const data = cells.filter((cell) => cell.row.value !== null);
  const head = (name: string) => shorten(name === "*" ? "mean" : titleOf(view.site, name), 22);
  const top = 20 + 5 * Math.max(...columns.map((name) => head(name).length)); // room for names that are turned by 60 degrees
  const left = width() < 500 ? 130 : 250;
  const side = Math.max(12, Math.min(46, Math.floor((width() - left - 20) / Math.max(columns.length, 1))));
  const plot = Plot.plot({
    ...base,
    ariaLabel: title,
    width: left + 20 + side * columns.length,
    height: top + 20 + Math.max(14, Math.min(24, side)) * lines.length,
    marginLeft: left,
    marginTop: top,
    padding: 0.05,
    x: { domain: [...columns], axis: "top", tickRotate: -60, label: null, tickFormat: head },
    y: { domain: [...lines], label: null, tickFormat: (name: string) => shorten(titleOf(view.site, name), left < 200 ? 16 : 32) },
    color: { type: "linear", scheme: "viridis", legend: true, label: axis },
    marks: [
      Plot.cell(data, { x: "x", y: "y", fill: (cell) => cell.row.value, title: (cell) => tipText(cell.row) }),
      ...(side >= 34
        ? [Plot.text(data, { x: "x", y: "y", text: (cell) => cell.row.value!.toFixed(2), fill: "white", stroke: "black", strokeWidth: 2, fontSize: 10 })]
        : []),
    ],
  });
  return frame(title, plot);
}

export function measureName(view: View, measure: string): string {
  return view.site.measures[measure]?.short ?? measure.replaceAll("_", " ");
}
