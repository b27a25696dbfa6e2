/** The server's trials as jsPsych's. */

import type { Study, Trial, Trials } from "./api";
import { button, el, page, paragraphs } from "./dom";
import type { ImageStore } from "./images";
import type { Node } from "./opening";
import { ClassifyPlugin } from "./plugins/classify";
import { ClusterPlugin } from "./plugins/cluster";
import { CuratePlugin } from "./plugins/curate";
import { PagePlugin } from "./plugins/page";
import { TimedPlugin } from "./plugins/timed";
import { TwoAlternativePlugin } from "./plugins/two-alternative";
import type { Answer } from "./queue";
import { say } from "./texts";

const PLUGINS: Readonly<Record<string, unknown>> = {
  classify: ClassifyPlugin,
  timed: TimedPlugin,
  "2afc": TwoAlternativePlugin,
  cluster: ClusterPlugin,
  curate: CuratePlugin,
};

const AHEAD = 8; // trials whose images are fetched before they are needed

export interface Surroundings {
  readonly study: Study;
  readonly images: ImageStore;
  readonly pixelsPerCm: number;
  readonly answered: (answer: Answer) => void;
  /** The line about the bonus of the block before, as soon as it is known. */
  readonly bonus: () => Promise<string | null>;
}

/** All unanswered trials, with the breaks between them. */
export function timeline(around: Surroundings, given: Trials): Node[] {
  return given.trials.flatMap((trial, index) => [
    ...(trial.break ? [rest(around, trial, given.blocks)] : []),
    trialNode(around, given, index),
  ]);
}

/** The addresses of a trial's images. */
export function addresses({ images }: Trial): string[] {
  return Object.values(images as Record<string, string | readonly string[]>).flat();
}

function trialNode({ study, images, pixelsPerCm, answered }: Surroundings, given: Trials, index: number): Node {
  const trial = given.trials[index]!;
  const { labels, reasons, texts, timing } = study;
  return {
    type: PLUGINS[study.type],
    ...trial.images,
    ...{ title: trial.title ?? null, labels, reasons, texts, timing, pixelsPerCm, number: trial.number, total: given.total },
    load: (url: string) => images.load(url),
    on_start: () => images.prefetch(given.trials.slice(index, index + AHEAD).flatMap(addresses)),
    on_finish: (data: Partial<Answer>) => {
      images.forget(addresses(trial));
      if ("response" in data) answered(answerOf(trial, data)); // without: the trial was broken off
    },
  };
}

function answerOf({ trial }: Trial, { response, rt, shown, input }: Partial<Answer>): Answer {
  return { trial, response, rt: rt ?? null, shown: shown ?? null, input: input ?? null };
}

function rest({ study: { texts }, bonus }: Surroundings, trial: Trial, blocks: number): Node {
  const build = (done: (data: object) => void): HTMLElement => {
    const won = el("p", { role: "status" });
    void bonus().then((line) => won.append(line ?? ""));
    const go = button(say(texts, "break_done"), () => done({}), { class: "primary", "data-focus": "" });
    const words = paragraphs(say(texts, "break_text", { block: trial.block, blocks }));
    return page(say(texts, "break_heading"), won, ...words, el("div", { class: "buttons" }, go));
  };
  return { type: PagePlugin, build };
}
