/** A contact sheet: one picture per condition and level. */
import { el } from "../dom";
import { type Part, loadStimuli } from "./data";
import { loadStimulus, picture } from "./stimuli";
import { link, type View } from "./view";

const MOST_COLUMNS = 8;

export async function contactSheet(view: View, part: Part): Promise<HTMLElement | null> {
  const set = part.answers;
  if (set === null || view.site.sets[set]!.pictures === 0) return null;
  const facts = view.site.sets[set]!;
  const stimuli = await loadStimuli(set);
  const lines = new Map<number, number[]>(); // by condition: one stimulus per level, or the first ones
  const seen = new Set<string>();
  for (let at = 0; at < facts.stimuli; at += 1) {
    if (!stimuli.pictured[at]) continue;
    const condition = stimuli.condition[at]!;
    const own = lines.get(condition) ?? [];
    const level = stimuli.level[at]!;
    if (own.length >= MOST_COLUMNS || (level >= 0 && seen.has(`${condition},${level}`))) continue;
    seen.add(`${condition},${level}`);
    own.push(at);
    lines.set(condition, own);
  }
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
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Contact sheet" }, table);
}
