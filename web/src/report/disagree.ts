/** The browser of disagreements: two observers, their right and wrong answers, and the images behind every count. */
import { button, type Child, el } from "../dom";
import { type Answers, type AnswerSet, loadAnswers, loadStimuli, NOT_SHOWN, type Stimuli, TIE } from "./data";
import { card } from "./stimuli";
import { address, heading, labelText, missing, notices, select, sentence, type View } from "./view";

const PAGE = 24; // images per page
const MOST_CLASSES = 20; // of the matrix
const CELLS: readonly (readonly [string, boolean, boolean])[] = [["11", true, true], ["10", true, false], ["01", false, true], ["00", false, false]];

/** What the address says: which observers, which filters, which cell. */
export interface State {
  readonly set: number;
  readonly a: number;
  readonly b: number;
  readonly experiment: string;
  readonly condition: string;
  readonly truth: string;
  readonly least: number; // confidence of the first observer
  readonly most: number;
  readonly abstention: string; // "", "a", "b", "none"
  readonly cell: string; // two digits: first right, second right; or truth,answer as codes
  readonly page: number;
}

export function stateOf(view: View, query: Readonly<Record<string, string>>): State {
  const { sets } = view.site;
  const able = (least: number) => sets.findIndex((set) => set.observers.length > 1 && set.pictures >= least);
  const wanted = Number(query["set"] ?? (able(1) >= 0 ? able(1) : able(0)));
  const set = wanted >= 0 && wanted < sets.length ? wanted : 0;
  const { observers } = sets[set]!;
  const find = (name: string | undefined) => observers.findIndex((one) => one.name === name);
  const pool = observers.findIndex((one) => one.kind === "pool");
  const model = observers.findIndex((one) => !["human", "simulated", "pool"].includes(one.kind));
  const a = find(query["a"]) >= 0 ? find(query["a"]) : Math.max(model, 0);
  const other = observers.findIndex((_, index) => index !== a);
  const b = find(query["b"]) >= 0 ? find(query["b"]) : pool >= 0 && pool !== a ? pool : Math.max(other, 0);
  const number = (text: string | undefined, otherwise: number) => (text !== undefined && Number.isFinite(Number(text)) ? Number(text) : otherwise);
  return {
    set, a, b,
    experiment: query["experiment"] ?? "", condition: query["condition"] ?? "", truth: query["truth"] ?? "",
    least: number(query["least"], 0), most: number(query["most"], 1), abstention: query["abstention"] ?? "",
    cell: query["cell"] ?? "", page: Math.max(0, Math.floor(number(query["page"], 0))),
  };
}

export function queryOf(view: View, state: State): Record<string, string> {
  const { observers } = view.site.sets[state.set]!;
  return {
    ...(view.site.sets.length > 1 ? { set: String(state.set) } : {}),
    a: observers[state.a]!.name, b: observers[state.b]!.name,
    experiment: state.experiment, condition: state.condition, truth: state.truth,
    least: state.least > 0 ? String(state.least) : "", most: state.most < 1 ? String(state.most) : "",
    abstention: state.abstention, cell: state.cell, page: state.page > 0 ? String(state.page) : "",
  };
}

/** The stimuli that both answered and that pass the filters; ties of pooled people are left out and counted. */
export function selected(set: AnswerSet, stimuli: Stimuli, a: Answers, b: Answers, state: State): { indices: number[]; ties: number } {
  const indices: number[] = [];
  let ties = 0;
  for (let at = 0; at < set.stimuli; at += 1) {
    if (a.response[at] === NOT_SHOWN || b.response[at] === NOT_SHOWN || stimuli.truth[at]! < 0) continue;
    if (state.experiment && set.experiments[stimuli.experiment[at]!] !== state.experiment) continue;
    if (state.condition && set.conditions[stimuli.condition[at]!] !== state.condition) continue;
    if (state.truth && set.labels[stimuli.truth[at]!] !== state.truth) continue;
    if ((state.least > 0 || state.most < 1) && a.confidence !== null) {
      const confidence = a.confidence[at]!;
      if (!(confidence >= state.least && confidence <= state.most)) continue; // unknown confidence too
    }
    const abstained = (answers: Answers) => set.labels[answers.response[at]!] === "abstain";
    if (state.abstention === "a" && !abstained(a)) continue;
    if (state.abstention === "b" && !abstained(b)) continue;
    if (state.abstention === "none" && (abstained(a) || abstained(b))) continue;
    if (a.response[at] === TIE || b.response[at] === TIE) {
      ties += 1;
      continue;
    }
    indices.push(at);
  }
  return { indices, ties };
}

/** Whether a stimulus belongs to the cell that was clicked. */
export function inCell(stimuli: Stimuli, a: Answers, b: Answers, cell: string, at: number): boolean {
  const truth = stimuli.truth[at]!;
  const found = CELLS.find(([name]) => name === cell);
  if (found !== undefined) return (a.response[at] === truth) === found[1] && (b.response[at] === truth) === found[2];
  const pair = /^(-?\d+),(-?\d+)$/.exec(cell);
  if (pair === null) return true;
  return truth === Number(pair[1]) && (a.response[at] === Number(pair[2]) || b.response[at] === Number(pair[2]));
}

export async function disagree(view: View, query: Readonly<Record<string, string>>): Promise<HTMLElement> {
  if (view.site.sets.length === 0) return missing("This report has no answers.");
  const state = stateOf(view, query);
  const set = view.site.sets[state.set]!;
  if (set.observers.length < 2) return missing("Two observers can disagree; this report has one.");
  const [stimuli, a, b] = await Promise.all([loadStimuli(state.set), loadAnswers(state.set, state.a), loadAnswers(state.set, state.b)]);
  const go = (change: Partial<State>) => (location.hash = address(["disagree"], queryOf(view, { ...state, page: 0, ...change })));
  const { indices, ties } = selected(set, stimuli, a, b, state);
  const shown = indices.filter((at) => inCell(stimuli, a, b, state.cell, at));
  const unknown = [query["a"], query["b"]].filter((name) => name !== undefined && !set.observers.some((one) => one.name === name));
  const names: [string, string] = [set.observers[state.a]!.title, set.observers[state.b]!.title];
  return el(
    "main",
    { class: "disagree" },
    heading("Where do two observers disagree?"),
    unknown.length > 0 ? el("p", { class: "warning" }, sentence(`No observer is called ${unknown.join(" or ")}; others are shown.`)) : null,
    controls(view, state, stimuli, a, go),
    el("p", { role: "status" }, `${indices.length} stimuli that both were shown`, ties === 0 ? "" : ties === 1 ? "; 1 more has no single commonest answer and is left out" : `; ${ties} more have no single commonest answer and are left out`, "."),
    el("div", { class: "columns" }, rightAndWrong(state, stimuli, a, b, indices, names, go), matrix(set, state, stimuli, a, b, indices, names, go)),
    el("h2", {}, sentence(title(set, state, names)), ` (${shown.length})`),
    state.cell ? el("p", {}, button("Show all cells", () => go({ cell: "" }))) : null,
    pager(shown.length, state, go),
    shown.length === 0
      ? el("p", {}, "No stimulus is in this cell with these filters.")
      : el("div", { class: "gallery" }, ...shown.slice(state.page * PAGE, (state.page + 1) * PAGE).map((at) => card(view, state.set, stimuli, at, [state.a, state.b]))),
    pager(shown.length, state, go),
    notices(set.notices, "Notes about these answers"),
  );
}

function title(set: AnswerSet, state: State, [a, b]: [string, string]): string {
  const found = CELLS.find(([name]) => name === state.cell);
  if (found !== undefined) return `${a} ${found[1] ? "right" : "wrong"}, ${b} ${found[2] ? "right" : "wrong"}`;
  const pair = /^(-?\d+),(-?\d+)$/.exec(state.cell);
  if (pair === null) return "Images";
  return `${labelText(set.labels, Number(pair[1]))} called ${labelText(set.labels, Number(pair[2]))}`;
}

function controls(view: View, state: State, stimuli: Stimuli, a: Answers, go: (change: Partial<State>) => void): HTMLElement {
  const { sets } = view.site;
  const set = sets[state.set]!;
  const observers = set.observers.map((one, index) => [String(index), one.kind === "simulated" ? `${one.title} (simulated)` : one.title] as const);
  const choice = (values: readonly (string | null)[]) => [["", "all"] as const, ...values.filter((value): value is string => Boolean(value)).map((value) => [value, value] as const)];
  const used = new Set(stimuli.truth);
  const classes = set.labels.filter((_, code) => used.has(code));
  const fields: Child[] = [];
  if (sets.length > 1)
    fields.push(select("Answers", sets.map((one, index) => [String(index), one.title]), String(state.set), (value) => (location.hash = address(["disagree"], { set: value }))));
  fields.push(select("First", observers, String(state.a), (value) => go({ a: Number(value) })), select("Second", observers, String(state.b), (value) => go({ b: Number(value) })));
  fields.push(button("Swap", () => go({ a: state.b, b: state.a, cell: state.cell === "10" ? "01" : state.cell === "01" ? "10" : state.cell })));
  if (set.experiments.length > 1) fields.push(select("Experiment", choice(set.experiments), state.experiment, (experiment) => go({ experiment })));
  if (set.conditions.length > 1) fields.push(select("Condition", choice(set.conditions), state.condition, (condition) => go({ condition })));
  fields.push(select("Class", choice(classes), state.truth, (truth) => go({ truth })));
  if (a.confidence !== null) {
    const number = (label: string, value: number, act: (value: number) => void) => {
      const box = el("input", { type: "number", min: "0", max: "1", step: "0.05", value: String(value) });
      box.addEventListener("change", () => act(Math.min(1, Math.max(0, Number(box.value)))));
      return el("label", { class: "field" }, el("span", {}, label), box);
    };
    fields.push(number("Confidence of the first from", state.least, (least) => go({ least })), number("to", state.most, (most) => go({ most })));
  }
  if (set.labels.includes("abstain"))
    fields.push(select("Abstention", [["", "all"], ["a", "the first abstains"], ["b", "the second abstains"], ["none", "nobody abstains"]], state.abstention, (abstention) => go({ abstention })));
  return el("form", { class: "controls", "aria-label": "Observers and filters" }, ...fields);
}

function rightAndWrong(state: State, stimuli: Stimuli, a: Answers, b: Answers, indices: readonly number[], [first, second]: [string, string], go: (change: Partial<State>) => void): HTMLElement {
  const cell = (name: string) => {
    const count = indices.filter((at) => inCell(stimuli, a, b, name, at)).length;
    const [, aRight, bRight] = CELLS.find(([one]) => one === name)!;
    const label = `${first} ${aRight ? "right" : "wrong"}, ${second} ${bRight ? "right" : "wrong"}: ${count} images`;
    const control = button(String(count), () => go({ cell: state.cell === name ? "" : name }), { "aria-pressed": String(state.cell === name), "aria-label": label, "data-cell": name });
    return el("td", { class: aRight === bRight ? "same" : "different" }, control);
  };
  return el(
    "table",
    { class: "two-by-two" },
    el("caption", {}, "Right and wrong; click a cell to see its images"),
    el("thead", {}, el("tr", {}, el("td"), el("th", { scope: "col" }, el("bdi", {}, second), " right"), el("th", { scope: "col" }, el("bdi", {}, second), " wrong"))),
    el(
      "tbody",
      {},
      el("tr", {}, el("th", { scope: "row" }, el("bdi", {}, first), " right"), cell("11"), cell("10")),
      el("tr", {}, el("th", { scope: "row" }, el("bdi", {}, first), " wrong"), cell("01"), cell("00")),
    ),
  );
}

/** How often each observer gave each answer to each class: the first's count less the second's. */
function matrix(set: AnswerSet, state: State, stimuli: Stimuli, a: Answers, b: Answers, indices: readonly number[], [first, second]: [string, string], go: (change: Partial<State>) => void): HTMLElement {
  const counts = new Map<string, [number, number]>();
  const differing = new Map<number, number>(); // by label: how many answers differ there
  const add = (truth: number, response: number, which: 0 | 1) => {
    const pair = counts.get(`${truth},${response}`) ?? [0, 0];
    pair[which] += 1;
    counts.set(`${truth},${response}`, pair);
  };
  for (const at of indices) {
    const truth = stimuli.truth[at]!;
    add(truth, a.response[at]!, 0);
    add(truth, b.response[at]!, 1);
    for (const label of [truth, a.response[at]!, b.response[at]!]) {
      differing.set(label, (differing.get(label) ?? 0) + Number(a.response[at] !== b.response[at]));
    }
  }
  const ordered = [...differing.keys()].sort((x, y) => (differing.get(y) ?? 0) - (differing.get(x) ?? 0));
  const labels = ordered.slice(0, MOST_CLASSES).sort((x, y) => (x < 0 ? 1 : y < 0 ? -1 : x - y));
  const truths = labels.filter((label) => indices.some((at) => stimuli.truth[at] === label));
  const largest = Math.max(1, ...[...counts.values()].map(([x, y]) => Math.abs(x - y)));
  const cell = (truth: number, response: number) => {
    const name = `${truth},${response}`;
    const [x, y] = counts.get(name) ?? [0, 0];
    const difference = x - y;
    const share = Math.abs(difference) / largest;
    const colour = difference === 0 ? "" : `background:color-mix(in srgb, var(${difference > 0 ? "--first" : "--second"}) ${Math.round(10 + 35 * share)}%, transparent)`;
    const text = x === 0 && y === 0 ? "" : difference > 0 ? `+${difference}` : String(difference);
    if (x === 0 && y === 0) return el("td");
    const label = `${text}: ${labelText(set.labels, truth)} called ${labelText(set.labels, response)}, ${first} ${x}, ${second} ${y}`;
    const control = button(text, () => go({ cell: state.cell === name ? "" : name }), { "aria-pressed": String(state.cell === name), "aria-label": label, title: label, "data-cell": name });
    return el("td", { style: colour, class: truth === response ? "diagonal" : "" }, control);
  };
  const hidden = ordered.length - labels.length;
  const table = el(
    "table",
    { class: "matrix" },
    el("caption", {}, sentence(`Answers by class: how many more images ${first} called so (+) than ${second} (-)${hidden > 0 ? `; ${MOST_CLASSES} of ${ordered.length} labels, those with most differing answers` : ""}`)),
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "truth"), ...labels.map((label) => el("th", { scope: "col" }, el("span", {}, el("bdi", {}, labelText(set.labels, label))))))),
    el("tbody", {}, ...truths.map((truth) => el("tr", {}, el("th", { scope: "row" }, el("bdi", {}, labelText(set.labels, truth))), ...labels.map((response) => cell(truth, response))))),
  );
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Difference of the confusion matrices" }, table);
}

function pager(count: number, state: State, go: (change: Partial<State>) => void): HTMLElement | null {
  const pages = Math.ceil(count / PAGE);
  if (pages < 2) return null;
  const step = (text: string, page: number) => button(text, () => go({ page }), page < 0 || page >= pages ? { disabled: "" } : {});
  return el("p", { class: "tools" }, step("Previous images", state.page - 1), ` page ${state.page + 1} of ${pages} `, step("Next images", state.page + 1));
}
