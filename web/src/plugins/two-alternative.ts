/** A query above two options: which of them looks more like it? */

import { ParameterType, type JsPsych, type JsPsychPlugin, type TrialType } from "jspsych";

import { el } from "../dom";
import type { Choice } from "../keys";
import { say, type Texts } from "../texts";
import { press } from "./labels";
import {
  ask,
  COMMON,
  figure,
  progress,
  RECORDED,
  simulatedAnswer,
  simulateTrial,
  VERSION,
  type Given,
  type Loader,
  type Mode,
  type Options,
} from "./shared";

const info = {
  name: "two-alternative",
  version: VERSION,
  parameters: {
    ...COMMON,
    query: { type: ParameterType.STRING, default: undefined },
    left: { type: ParameterType.STRING, default: undefined },
    right: { type: ParameterType.STRING, default: undefined },
  },
  /** left or right */
  data: { ...RECORDED, response: { type: ParameterType.STRING } },
} as const;

type Info = typeof info;

export class TwoAlternativePlugin implements JsPsychPlugin<Info> {
  static info = info;

  constructor(readonly jsPsych: JsPsych) {}

  async trial(display: HTMLElement, trial: TrialType<Info>, onLoad?: () => void): Promise<Given> {
    const texts = trial.texts as Texts;
    const [query, left, right] = await Promise.all([trial.query, trial.left, trial.right].map(trial.load as Loader));
    const choices = [
      option("left", left!, say(texts, "image_left")),
      option("right", right!, say(texts, "image_right")),
    ];
    const root = el(
      "main",
      { class: "trial two-alternative" },
      progress(texts, trial.number, trial.total),
      el("h1", {}, say(texts, "question_2afc")),
      figure(query!, say(texts, "image_above")),
      el("div", { class: "pair" }, ...choices.map((one) => one.button)),
    );
    return ask(display, root, choices, onLoad);
  }

  simulate(trial: TrialType<Info>, mode: Mode, options: Options, onLoad?: () => void): Promise<object> {
    const display = this.jsPsych.getDisplayElement();
    const data = simulatedAnswer(this.jsPsych, ["left", "right"], options);
    const act = (given: Given): void => press(display, given.response);
    return simulateTrial(this.jsPsych, mode, data, () => this.trial(display, trial, onLoad), act, onLoad);
  }
}

function option(side: "left" | "right", image: HTMLImageElement, label: string): Choice {
  const arrow = el("kbd", { "aria-hidden": "true" }, side === "left" ? "←" : "→");
  const button = el("button", { type: "button", class: "picture", "data-response": side }, figure(image, label), arrow);
  return { response: side, key: `arrow${side}`, button };
}
