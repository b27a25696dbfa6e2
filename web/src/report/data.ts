/** The data of a report: shards are classic scripts that call `cosight.add(name, value)`, so that file:// works too. */

export interface Row {
  readonly id: number; // index of the row in scores.parquet
  readonly observer: string;
  readonly against: string | null;
  readonly measure: string;
  readonly statistic: string;
  readonly group: string;
  readonly value: number | null;
  readonly low: number | null;
  readonly high: number | null;
  readonly n: number;
  readonly p: number | null;
  readonly p_adjusted: number | null;
  readonly flags: readonly string[];
  readonly note: string;
}

export interface Chart {
  readonly kind: "lines" | "bars" | "dots" | "scatter" | "grid" | "pairs" | "pair-scatter" | "pictures" | "sheet";
  readonly title: string;
  readonly text: string;
  readonly measure: string;
  readonly x: string;
  readonly y: string;
  readonly where: string;
  readonly facet: string;
}

export interface Section {
  readonly name: string;
  readonly title: string;
  readonly text: string;
  readonly charts: readonly Chart[];
}

export type TableCell = readonly [value: number, sd: number | null, rank: number | null] | null;

export interface BenchmarkTable {
  readonly against: string;
  readonly spread: string;
  readonly columns: readonly {
    readonly title: string;
    readonly measure: string;
    readonly group: string;
    readonly digits: number;
    readonly summary: boolean;
  }[];
  readonly lines: readonly {
    readonly observer: string;
    readonly model: string;
    readonly function: string;
    readonly seeds: number;
    readonly heading: string;
    readonly cells: readonly TableCell[];
  }[];
  readonly remarks: readonly (readonly [string, number | null])[];
}

export interface Part {
  readonly name: string;
  readonly title: string;
  readonly text: string;
  readonly answers: number | null;
  readonly benchmark: string | null;
  readonly source: string | null;
  readonly first: number;
  readonly count: number;
  readonly measures: readonly string[];
  readonly headline: string; // the first sentence of the verdict
  readonly verdict: string;
  readonly notices: readonly string[];
  readonly settings: Readonly<Record<string, unknown>>;
  readonly ranked: readonly string[];
  readonly group: string;
  readonly measure?: string;
  readonly people?: string;
  readonly chance: Readonly<Record<string, number>>;
  readonly sections: readonly Section[];
  readonly table?: BenchmarkTable;
  readonly sheet: string | null; // the benchmark's contact sheet
  readonly leaderboard: readonly number[]; // rows of the leaderboard
  readonly simulated: boolean; // whether simulated people take part
}

export interface Observer {
  readonly name: string;
  readonly title: string;
  readonly kind: string;
  readonly family?: string | null;
  readonly architecture?: string | null;
  readonly seed?: number | null;
  readonly function?: string | null;
  readonly trials: number;
  readonly answered: number;
  readonly probabilities?: boolean;
  readonly abstains?: boolean;
}

export interface AnswerSet {
  readonly title: string;
  readonly labels: readonly string[];
  readonly observers: readonly Observer[];
  readonly stimuli: number;
  readonly groupSize: number;
  readonly pictures: number;
  readonly experiments: readonly (string | null)[];
  readonly conditions: readonly (string | null)[];
  readonly notices: readonly string[];
}

export interface Session {
  readonly started: string;
  readonly ended: string | null;
  readonly outcome: string | null;
  readonly versions: Readonly<Record<string, string>> | null;
  readonly git: { readonly commit: string; readonly changed: boolean | null } | null;
}

export interface RunFacts {
  readonly name: string;
  readonly problem?: string;
  readonly command?: string;
  readonly state?: string;
  readonly stimuli?: number;
  readonly answered?: readonly (readonly [string, number, number, string])[];
  readonly plan?: unknown;
  readonly passed?: Readonly<Record<string, unknown>>;
  readonly defaulted?: Readonly<Record<string, unknown>>;
  readonly sessions?: readonly Session[];
  readonly digests?: Readonly<Record<string, unknown>>;
}

/** The files of a table: what is shown, for other programs. */
export interface TableFiles {
  readonly name: string;
  readonly title: string;
  readonly rows: number;
  readonly csv: string | null; // null: too large
  readonly json: string | null;
  readonly parquet: string;
}

export interface Site {
  readonly title: string;
  readonly stamp: string;
  readonly watched: boolean;
  readonly parts: readonly Part[];
  readonly sets: readonly AnswerSet[];
  readonly kinds: Readonly<Record<string, string>>; // of observers whose answers are not in the report
  readonly titles: Readonly<Record<string, string>>; // of observers whose names are long
  readonly measures: Readonly<
    Record<string, { short: string; summary: string; direction: string; pairs: boolean; citation: string }>
  >;
  readonly pairs: number;
  readonly people: readonly number[]; // rows about people alone
  readonly tables: readonly TableFiles[];
  readonly notices: readonly string[];
  readonly method: {
    readonly command: string;
    readonly passed: Readonly<Record<string, unknown>>;
    readonly defaulted: Readonly<Record<string, unknown>>;
    readonly versions: Readonly<Record<string, string>>;
    readonly sources: readonly { name: string; digest: string | null; licence: string | null }[];
    readonly exclusions: readonly {
      readonly source: string;
      readonly participants: number;
      readonly written_all_the_same: boolean; // whether the answers of excluded participants are in the report
      readonly excluded: readonly { readonly participant: string; readonly reasons: readonly string[] }[];
      readonly rules: Readonly<Record<string, unknown>>;
    }[];
    readonly runs: readonly RunFacts[];
    readonly bibtex: string;
    readonly cited: number;
  };
}

/** The facts of every stimulus of a set, one array per column. */
export interface Stimuli {
  readonly experiment: Int16Array;
  readonly condition: Int16Array;
  readonly level: Int32Array; // -1: none
  readonly truth: Int16Array;
  readonly series: Int32Array; // -1: no other version of the same source
  readonly source: Int32Array; // the photo that a stimulus was made from, as a number
  readonly pictured: Uint8Array;
}

export interface Answers {
  readonly response: Int16Array;
  readonly confidence: Float32Array | null;
  readonly abstention: Float32Array | null;
}

/** A picture, and what it is in a task: query, target, other 1 ...; empty for the picture of a stimulus. */
export type Picture = readonly [thumbnail: string, original: string | null, name: string];

/** Stimuli that are loaded together; arrays are indexed from the group's first stimulus. */
export interface StimulusGroup {
  readonly image: readonly (string | null)[];
  readonly stimulus: readonly (string | null)[];
  readonly pictures: readonly (readonly Picture[])[];
  readonly responses: Int16Array; // observers x stimuli
  readonly likely: Readonly<Record<string, Int16Array>>; // by observer: the most probable labels of each stimulus
  readonly given: Readonly<Record<string, readonly (readonly number[])[]>>; // by pool: label code, count, label code, count ...
  readonly reasons: Readonly<Record<string, readonly (string | null)[]>>; // by observer
}

/** The most probable labels of one stimulus of a group: label code, probability, label code, probability ... */
export function likelyLabels(packed: Int16Array, at: number, size: number): number[] {
  const width = packed.length / size; // two numbers per label, probabilities in units of 1/10000
  const found: number[] = [];
  for (let place = at * width; place < (at + 1) * width; place += 2) if (packed[place + 1]! > 0) found.push(packed[place]!, packed[place + 1]! / 10000);
  return found;
}

export const NO_ANSWER = -1;
export const NOT_SHOWN = -2;
export const TIE = -3;

const receivers = new Map<string, (value: unknown) => void>();
const loaded = new Map<string, Promise<unknown>>();

declare global {
  interface Window {
    cosight: { add: (name: string, value: unknown) => void };
  }
}

/** Takes what a shard brings; called by the shards themselves. */
export function receive(name: string, value: unknown): void {
  receivers.get(name)?.(value);
}

function run<T>(name: string, query: string): Promise<T> {
  return new Promise((resolve, reject) => {
    receivers.set(name, resolve as (value: unknown) => void);
    const script = document.createElement("script");
    script.onerror = () => reject(new Error(`cannot load data/${name}.js; is the report complete?`));
    script.onload = () => script.remove();
    script.src = `data/${name}.js${query}`;
    document.head.append(script);
  });
}

/** Loads a shard once; rejects where its file is missing. */
export function load<T>(name: string): Promise<T> {
  if (!loaded.has(name)) loaded.set(name, run<T>(name, ""));
  return loaded.get(name)! as Promise<T>;
}

/** Loads a shard again, whatever the browser has stored. */
export function loadAgain<T>(name: string): Promise<T> {
  return run<T>(name, `?${Date.now()}`);
}

function bytes(text: string): ArrayBuffer {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0)).buffer;
}

export async function loadStimuli(set: number): Promise<Stimuli> {
  const packed = await load<Record<string, string>>(`${set}/stimuli`);
  return {
    experiment: new Int16Array(bytes(packed["experiment"]!)),
    condition: new Int16Array(bytes(packed["condition"]!)),
    level: new Int32Array(bytes(packed["level"]!)),
    truth: new Int16Array(bytes(packed["truth"]!)),
    series: new Int32Array(bytes(packed["series"]!)),
    source: new Int32Array(bytes(packed["source"]!)),
    pictured: new Uint8Array(bytes(packed["pictured"]!)),
  };
}

export async function loadAnswers(set: number, observer: number): Promise<Answers> {
  const packed = await load<Record<string, string>>(`${set}/answers/${observer}`);
  const floats = (text: string | undefined) => (text === undefined ? null : new Float32Array(bytes(text)));
  return {
    response: new Int16Array(bytes(packed["response"]!)),
    confidence: floats(packed["confidence"]),
    abstention: floats(packed["abstention"]),
  };
}

const groups = new Map<string, Promise<StimulusGroup>>();

export function loadGroup(set: number, group: number): Promise<StimulusGroup> {
  const key = `${set}/${group}`;
  if (!groups.has(key)) groups.set(key, decodeGroup(set, group));
  return groups.get(key)!;
}

async function decodeGroup(set: number, group: number): Promise<StimulusGroup> {
  const packed = await load<StimulusGroup & { responses: string; likely: Record<string, string> }>(`${set}/group/${group}`);
  const likely = Object.fromEntries(Object.entries(packed.likely).map(([observer, text]) => [observer, new Int16Array(bytes(text))]));
  return { ...packed, responses: new Int16Array(bytes(packed.responses)), likely };
}

interface Columns {
  readonly texts: readonly string[];
  readonly [name: string]: readonly (string | number | null)[];
}

/** The rows of a shard of columns. */
export function rowsOf(columns: Columns): Row[] {
  const text = (name: string, index: number): string | null => {
    const code = columns[name]![index] as number;
    return code < 0 ? null : columns.texts[code]!;
  };
  const number = (name: string, index: number) => columns[name]![index] as number | null;
  return columns["id"]!.map((id, index) => ({
    id: id as number,
    observer: text("observer", index)!,
    against: text("against", index),
    measure: text("measure", index)!,
    statistic: text("statistic", index)!,
    group: text("group", index)!,
    value: number("value", index),
    low: number("low", index),
    high: number("high", index),
    n: number("n", index)!,
    p: number("p", index),
    p_adjusted: number("p_adjusted", index),
    flags: text("flags", index)!.split(" ").filter(Boolean),
    note: text("note", index)!,
  }));
}

const decoded = new Map<string, Promise<Row[]>>();

/** The rows of single observers and groups ("rows"), or those of pairs of observers ("pairs"). */
export function loadRows(name: "rows" | "pairs"): Promise<Row[]> {
  if (!decoded.has(name)) decoded.set(name, load<Columns>(name).then(rowsOf));
  return decoded.get(name)!;
}

/** The pairs of key and value of a group. */
export function groupPairs(group: string): [string, string][] {
  return group
    .split(";")
    .filter(Boolean)
    .map((part) => {
      const at = part.indexOf("=");
      return [part.slice(0, at), part.slice(at + 1).replaceAll("%3B", ";").replaceAll("%25", "%")];
    });
}

/** A group in words. */
export function groupText(group: string): string {
  const pairs = groupPairs(group);
  if (pairs.length === 0) return "all trials";
  return pairs.map(([key, value]) => (value === "*" ? `mean over ${key}` : `${key} ${value}`)).join(", ");
}

export function partRows(rows: readonly Row[], part: Part): Row[] {
  return rows.filter((row) => row.id >= part.first && row.id < part.first + part.count);
}
