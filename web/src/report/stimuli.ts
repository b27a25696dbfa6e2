/** Stimuli: one as a card of the gallery, and one as a page with everyone's answers. */
import { type Child, el } from "../dom";
import { type AnswerSet, likelyLabels, loadGroup, loadStimuli, NOT_SHOWN, type Picture, type Stimuli, type StimulusGroup } from "./data";
import { shorten } from "./charts";
import { sortableTable } from "./tables";
import { address, heading, labelText, link, missing, observerName, type View } from "./view";

/** Everything about one stimulus. */
export interface Stimulus {
  readonly set: number;
  readonly index: number;
  readonly name: string;
  readonly digest: string | null;
  readonly pictures: readonly Picture[];
  readonly responses: readonly number[]; // of each observer
  readonly shares: ReadonlyMap<number, readonly number[]>; // by observer: label code, number, label code, number ...
  readonly reasons: ReadonlyMap<number, string>; // by observer
}

export async function loadStimulus(view: View, set: number, index: number): Promise<Stimulus> {
  const facts = view.site.sets[set]!;
  const group: StimulusGroup = await loadGroup(set, Math.floor(index / facts.groupSize));
  const at = index % facts.groupSize;
  const size = group.image.length;
  return {
    set,
    index,
    name: group.image[at] ?? group.stimulus[at] ?? `stimulus ${index + 1}`,
    digest: group.stimulus[at] ?? null,
    pictures: group.pictures[at] ?? [],
    responses: facts.observers.map((_, observer) => group.responses[observer * size + at]!),
    shares: new Map([
      ...Object.entries(group.likely).map(([observer, packed]) => [Number(observer), likelyLabels(packed, at, size)] as const),
      ...Object.entries(group.given).map(([observer, own]) => [Number(observer), own[at]!] as const),
    ]),
    reasons: new Map(Object.entries(group.reasons).flatMap(([observer, own]) => (own[at] ? [[Number(observer), own[at]!] as const] : []))),
  };
}

/** The pictures, which open their originals; a text where there are none. */
export function picture(stimulus: Stimulus): HTMLElement {
  if (stimulus.pictures.length === 0) return el("div", { class: "no-picture" }, el("bdi", {}, stimulus.name));
  const one = ([thumbnail, original, name]: Picture): HTMLElement => {
    const image = el("img", { src: thumbnail, alt: name ? `${name} of task ${stimulus.name}` : `Image ${stimulus.name}`, loading: "lazy" });
    const shown = original === null ? image : el("a", { href: original, target: "_blank", rel: "noopener", title: "Open the original" }, image);
    return name === "" ? shown : el("figure", {}, shown, el("figcaption", {}, name));
  };
  if (stimulus.pictures.length === 1) return one(stimulus.pictures[0]!);
  return el("div", { class: "task" }, ...stimulus.pictures.map(one));
}

function reason(stimulus: Stimulus, observer: number): HTMLElement | null {
  const text = stimulus.reasons.get(observer);
  return text === undefined ? null : el("q", { class: "reason" }, el("bdi", {}, text));
}

/** Labels with bars: how many people gave each, or how probable each is. */
export function bars(title: string, labels: readonly string[], shares: readonly number[], truth: number): HTMLElement {
  const pairs: [number, number][] = [];
  for (let at = 0; at + 1 < shares.length; at += 2) pairs.push([shares[at]!, shares[at + 1]!]);
  const total = pairs.reduce((sum, [, share]) => sum + share, 0);
  const isCount = total > 1.01;
  const items = pairs.slice(0, 6).map(([code, share]) =>
    el(
      "li",
      code === truth ? { class: "truth" } : {},
      el("span", { class: "bar", style: `width:${((100 * share) / (isCount ? total : 1)).toFixed(1)}%`, "aria-hidden": "true" }),
      el("span", { class: "label" }, el("bdi", {}, labelText(labels, code))),
      el("span", { class: "share" }, isCount ? String(share) : share.toFixed(2)),
    ),
  );
  const more = isCount ? pairs.length - items.length : 0; // of label distributions, only the most probable labels are known
  return el("div", { class: "bars" }, el("b", {}, title), el("ul", {}, ...items), more > 0 ? el("small", {}, more === 1 ? "1 other label" : `${more} other labels`) : null);
}

/** What an observer answered, as bars where its label distribution is known. */
export function answer(set: AnswerSet, stimulus: Stimulus, observer: number, truth: number): HTMLElement {
  const facts = set.observers[observer]!;
  const code = stimulus.responses[observer]!;
  const right = code === truth ? " (right)" : code < 0 ? "" : truth >= 0 ? " (wrong)" : "";
  const shares = stimulus.shares.get(observer);
  const text = el("p", {}, el("bdi", {}, facts.title), ": ", el("b", {}, el("bdi", {}, labelText(set.labels, code))), right);
  if (shares === undefined || shares.length === 0) return el("div", { class: "answer" }, text, reason(stimulus, observer));
  const what = facts.kind === "pool" ? (facts.name.endsWith("gold") ? "gold label" : "answers") : "probabilities";
  return el("div", { class: "answer" }, text, reason(stimulus, observer), bars(what, set.labels, shares, truth));
}

/** The stimuli that were made from the same source, weakest level first; only the stimulus itself where there are none. */
export function siblings(stimuli: Stimuli, index: number): number[] {
  const series = stimuli.series[index]!;
  if (series < 0) return [index];
  const found: number[] = [];
  stimuli.series.forEach((other, at) => other === series && found.push(at));
  return found.sort((a, b) => stimuli.level[a]! - stimuli.level[b]! || stimuli.condition[a]! - stimuli.condition[b]! || a - b);
}

export function describe(set: AnswerSet, stimuli: Stimuli, index: number): string {
  const experiment = set.experiments[stimuli.experiment[index]!];
  const condition = set.conditions[stimuli.condition[index]!];
  const level = stimuli.level[index]!;
  return [experiment, condition, level >= 0 ? `level ${level}` : null].filter(Boolean).join(", ");
}

/** A card: picture, truth, both answers, and a slider over the levels of the same source. */
export function card(view: View, set: number, stimuli: Stimuli, index: number, observers: readonly number[]): HTMLElement {
  const facts = view.site.sets[set]!;
  const all = siblings(stimuli, index);
  const body = el("div", { class: "card-body" }, el("p", {}, "Loading"));
  const people = facts.observers.findIndex((one) => one.kind === "pool" && one.name.endsWith("people"));
  const shown = [...new Set(people >= 0 ? [...observers, people] : observers)];
  const fill = async (at: number) => {
    const stimulus = await loadStimulus(view, set, at);
    const truth = stimuli.truth[at]!;
    body.replaceChildren(
      picture(stimulus),
      el("p", {}, link(["stimulus", set, at], el("bdi", {}, shorten(stimulus.name, 48))), el("br"), el("small", {}, describe(facts, stimuli, at))),
      el("p", {}, "truth: ", el("b", {}, el("bdi", {}, truth >= 0 ? labelText(facts.labels, truth) : "unknown"))),
      ...shown.map((observer) => answer(facts, stimulus, observer, truth)),
    );
  };
  const failed = (error: unknown) => body.replaceChildren(el("p", { role: "alert" }, String(error)));
  fill(index).catch(failed);
  let slider: Child = null;
  if (all.length > 1) {
    const name = (at: number) => describe(facts, stimuli, all[at]!);
    const text = el("output", {}, name(all.indexOf(index)));
    const range = el("input", { type: "range", min: "0", max: String(all.length - 1), value: String(all.indexOf(index)), step: "1", "aria-label": "Version of the same source" });
    range.setAttribute("aria-valuetext", name(all.indexOf(index)));
    range.addEventListener("input", () => {
      const at = Number(range.value);
      text.textContent = name(at);
      range.setAttribute("aria-valuetext", name(at));
      fill(all[at]!).catch(failed);
    });
    slider = el("label", { class: "slider" }, range, text);
  }
  return el("article", { class: "card stimulus", "data-stimulus": String(index) }, body, slider);
}

export async function stimulusPage(view: View, set: number, index: number): Promise<HTMLElement> {
  const facts = view.site.sets[set];
  if (facts === undefined || !(index >= 0 && index < facts.stimuli)) return missing("There is no such stimulus.");
  const [stimuli, stimulus] = await Promise.all([loadStimuli(set), loadStimulus(view, set, index)]);
  const truth = stimuli.truth[index]!;
  const [first] = stimulus.pictures;
  const shown = facts.observers.map((observer, at) => ({ observer, at, code: stimulus.responses[at]! })).filter((line) => line.code !== NOT_SHOWN);
  const table = sortableTable(
    shown,
    [
      { title: "Observer", cell: (line) => observerName(view.site, line.observer.name), sort: (line) => line.observer.name },
      { title: "Answer", cell: (line) => el("span", {}, el("bdi", {}, labelText(facts.labels, line.code)), reason(stimulus, line.at)), sort: (line) => labelText(facts.labels, line.code) },
      { title: "Right", cell: (line) => (truth < 0 ? "" : line.code === truth ? "yes" : "no"), sort: (line) => Number(line.code === truth) },
      {
        title: "Distribution",
        cell: (line) => {
          const shares = stimulus.shares.get(line.at);
          return shares === undefined || shares.length === 0 ? "" : bars("", facts.labels, shares, truth);
        },
      },
    ],
    { caption: "Everyone's answers", text: (line) => `${line.observer.name} ${labelText(facts.labels, line.code)}` },
  );
  const all = siblings(stimuli, index);
  const others = all.length < 2 ? null : el(
    "div", {}, el("h2", {}, "Versions of the same source"),
    el("ul", { class: "strip" }, ...all.map((at) => el("li", at === index ? { "aria-current": "true" } : {}, link(["stimulus", set, at], describe(facts, stimuli, at))))),
  );
  const step = (text: string, at: number) => (at >= 0 && at < facts.stimuli ? el("a", { href: address(["stimulus", set, at]) }, text) : null);
  return el(
    "main",
    {},
    heading(stimulus.name),
    el("p", { class: "tools" }, step("Previous", index - 1), " ", step("Next", index + 1)),
    el("p", {}, describe(facts, stimuli, index)),
    el("p", {}, "truth: ", el("b", {}, el("bdi", {}, truth >= 0 ? labelText(facts.labels, truth) : "unknown"))),
    first === undefined
      ? el("p", { class: "small" }, "No image of this stimulus is in the report.")
      : stimulus.pictures.length > 1
        ? picture(stimulus)
        : el("img", { src: first[1] ?? first[0], alt: `Image ${stimulus.name}`, class: "large" }),
    first?.[1] === null ? el("p", { class: "small" }, "A thumbnail; the report has no original images.") : null,
    stimulus.digest === null ? null : el("p", { class: "small digest" }, `${stimulus.pictures.length > 1 ? "task" : "digest"} ${stimulus.digest}`),
    others,
    table,
  );
}
