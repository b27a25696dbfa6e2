/** A contact sheet: one picture per condition and level. */
import { el } from "../dom";
import { loadStimuli, type Part, type Stimuli } from "./data";
import { loadStimulus, picture } from "./stimuli";
import { link, type View } from "./view";

const MOST_COLUMNS = 8;

/** By condition: all versions of one source, the one with most pictures; the first stimuli where it has none. */
export function chosen(count: number, stimuli: Stimuli): Map<number, number[]> {
  const pictured = Array.from({ length: count }, (_, at) => at).filter((at) => stimuli.pictured[at]);
  const sizes = new Map<number, number>();
  for (const at of pictured) sizes.set(stimuli.source[at]!, (sizes.get(stimuli.source[at]!) ?? 0) + 1);
  const most = Math.max(...sizes.values());
  const source = [...sizes].find(([, size]) => size === most && size > 1)?.[0];
  const lines = new Map<number, { own: number[]; all: number[] }>();
  for (const at of pictured) {
    const line = lines.get(stimuli.condition[at]!) ?? { own: [], all: [] };
    lines.set(stimuli.condition[at]!, line);
    if (stimuli.source[at] === source) line.own.push(at);
    if (line.all.length < MOST_COLUMNS) line.all.push(at);
  }
  return new Map([...lines].map(([condition, { own, all }]) => [condition, own.length > 0 ? own.slice(0, MOST_COLUMNS) : all]));
}

export async function contactSheet(view: View, part: Part): Promise<HTMLElement | null> {
  const set = part.answers;
  if (set === null || view.site.sets[set]!.pictures === 0) return null;
  const facts = view.site.sets[set]!;
  const stimuli = await loadStimuli(set);
  const lines = chosen(facts.stimuli, stimuli);
  const rows = await Promise.all(
    [...lines].sort(([a], [b]) => a - b).map(async ([condition, all]) => {
      const ordered = all.sort((a, b) => stimuli.level[a]! - stimuli.level[b]!);
      const cells = await Promise.all(
        ordered.map(async (at) => {
          const level = stimuli.level[at]!;
          return el("td", {}, picture(await loadStimulus(view, set, at)), link(["stimulus", set, at], level >= 0 ? `level ${level}` : "answers"));
        }),
      );
      return el("tr", {}, el("th", { scope: "row" }, el("bdi", {}, facts.conditions[condition] ?? "no condition")), ...cells);
    }),
  );
  const table = el("table", { class: "sheet" }, el("caption", {}, "Some of the images, one row per condition"), el("tbody", {}, ...rows));
  return el("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "Contact sheet" }, table);
}
