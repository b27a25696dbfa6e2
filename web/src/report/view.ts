/** What all pages share: the site, addresses, names of observers, numbers, downloads of text. */
import { type Child, el } from "../dom";
import type { Observer, Row, Site } from "./data";

export interface View {
  readonly site: Site;
  readonly rows: readonly Row[];
}

export type Query = Readonly<Record<string, string | undefined>>;

export const POOLS = ["people", "simulated people", "models", "gold", "simulated gold"];

/** The address of a page inside the report; empty parameters are left out. */
export function address(path: readonly (string | number)[], query: Query = {}): string {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const text = pairs.map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value!)}`).join("&");
  return `#/${path.map((part) => encodeURIComponent(part)).join("/")}${text ? `?${text}` : ""}`;
}

export function link(path: readonly (string | number)[], text: Child, query: Query = {}): HTMLAnchorElement {
  return el("a", { href: address(path, query) }, text);
}

export function findObserver(site: Site, name: string): { set: number; index: number; observer: Observer } | null {
  for (const [set, one] of site.sets.entries()) {
    const index = one.observers.findIndex((observer) => observer.name === name);
    if (index >= 0) return { set, index, observer: one.observers[index]! };
  }
  return null;
}

/** What an observer is called in tables and charts. */
export function titleOf(site: Site, name: string): string {
  return site.titles[name] ?? name;
}

/** An observer's name as a link to its page; simulated people are labelled. */
export function observerName(site: Site, name: string): HTMLElement {
  const found = findObserver(site, name);
  const title = titleOf(site, name);
  const isPool = found === null || found.observer.kind === "pool";
  const text = isPool ? el("bdi", {}, title) : el("a", { href: address(["observer", name]) }, el("bdi", {}, title));
  return el("span", { class: "observer" }, text, badge(kindOf(site, name)));
}

/** The kind of an observer, whether its answers are in the report or only its scores; empty where it is not known. */
export function kindOf(site: Site, name: string): string {
  return findObserver(site, name)?.observer.kind ?? site.kinds[name] ?? "";
}

export function badge(kind: string): HTMLElement | null {
  if (kind === "simulated") return el("span", { class: "badge simulated" }, "simulated");
  if (kind === "human") return el("span", { class: "badge person" }, "person");
  return null;
}

export function kindGroup(site: Site, name: string): "people" | "simulated people" | "models" {
  if (name === "people" || name === "gold") return "people";
  if (name === "simulated people" || name === "simulated gold") return "simulated people";
  const kind = kindOf(site, name);
  return kind === "human" ? "people" : kind === "simulated" ? "simulated people" : "models";
}

export function decimals(value: number, digits = 3): string {
  return Math.abs(value) < 100 ? value.toFixed(digits).replace(/^-(0\.?0*)$/, "$1") : value.toFixed(0);
}

/** One score: its value and interval, or that it is undefined and why. `data-row` is its row in scores.parquet. */
export function scoreCell(row: Row, digits = 3, sd: Row | null = null): HTMLElement {
  const text = (value: number) => (row.statistic === "rank" ? String(value) : decimals(value, digits));
  const flags = row.flags.length ? ` Flags: ${row.flags.join(", ")}.` : "";
  const about = `${row.note}${row.note ? "." : ""} n = ${row.n}.${flags}`.trim();
  const attributes = { "data-row": String(row.id), title: about };
  if (row.value === null) {
    const note = row.note.replace(/^undefined: /, "").replace(/(^|; )undefined$/, "");
    const why = note || row.flags.join(", ").replaceAll("_", " ") || "no reason given";
    return el("span", { ...attributes, class: "undefined" }, "undefined", el("small", {}, `: ${sentence(why)}`));
  }
  const parts: Child[] = [el("b", { "data-value": String(row.value) }, text(row.value))];
  if (sd !== null && sd.value !== null)
    parts.push(el("small", { "data-row": String(sd.id) }, ` \u00b1 ${decimals(sd.value, digits)}`));
  if (row.low !== null && row.high !== null)
    parts.push(el("small", { class: "interval" }, ` [${text(row.low)},\u00a0${text(row.high)}]`));
  return el("span", { ...attributes, class: "score" }, ...parts);
}

export function labelText(labels: readonly string[], code: number): string {
  if (code === -3) return "no single commonest answer";
  if (code === -1) return "no answer";
  if (code < 0) return "not shown";
  return labels[code] ?? "?";
}

/** A sentence with names in it, without the characters by which a name would reverse what follows it. */
export function sentence(text: string): string {
  return text.replace(/[\u202a-\u202e\u2066-\u2069]/g, "");
}

/** Says which runs have not answered everything. */
export function unfinishedNote(site: Site): HTMLElement | null {
  const names = site.method.runs.filter((run) => run.state !== undefined && run.state !== "finished").map((run) => run.name);
  return names.length === 0 ? null : el("p", { class: "warning" }, sentence(`Not finished: ${names.join(", ")}. The numbers are about the answers that there were.`));
}

/** A heading that receives the focus when its page opens. */
export function heading(text: string): HTMLElement {
  return el("h1", { tabindex: "-1" }, el("bdi", {}, text));
}

export function missing(text: string): HTMLElement {
  return el("main", {}, heading("Not found"), el("p", {}, sentence(text)), el("p", {}, el("a", { href: "#/" }, "Overview")));
}

let choices = 0;

export function select(
  label: string,
  options: readonly (readonly [string, string])[],
  value: string,
  act: (value: string) => void,
): HTMLElement {
  const id = `choice-${(choices += 1)}`;
  const box = el("select", { id }, ...options.map(([name, text]) => el("option", { value: name }, text)));
  box.value = value;
  box.addEventListener("change", () => act(box.value));
  return el("div", { class: "field" }, el("label", { for: id }, label), box);
}

export function notices(texts: readonly string[], title = "Notes"): HTMLElement | null {
  const unique = [...new Set(texts)];
  if (unique.length === 0) return null;
  return el(
    "details",
    { class: "notices" },
    el("summary", {}, `${title} (${unique.length})`),
    el("ul", {}, ...unique.map((text) => el("li", {}, sentence(text)))),
  );
}
