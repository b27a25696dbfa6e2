/** One image, the label space as buttons and keys, no time limit. */

import { ParameterType, type JsPsych, type JsPsychPlugin, type TrialType } from "jspsych";

import type { Label } from "../api";
import { el } from "../dom";
import { say, type Texts } from "../texts";
import { labelChoices, press } from "./labels";
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
  name: "classify",
  version: VERSION,
  parameters: {
    ...COMMON,
    image: { type: ParameterType.STRING, default: undefined },
    labels: { type: ParameterType.OBJECT, array: true, default: undefined },
  },
  data: { ...RECORDED, response: { type: ParameterType.STRING } },
} as const;

type Info = typeof info;

export class ClassifyPlugin implements JsPsychPlugin<Info> {
  static info = info;

  constructor(readonly jsPsych: JsPsych) {}

  async trial(display: HTMLElement, trial: TrialType<Info>, onLoad?: () => void): Promise<Given> {
    const texts = trial.texts as Texts;
    const image = await (trial.load as Loader)(trial.image);
    const choices = labelChoices(texts, trial.labels as Label[]);
    const root = el(
      "main",
      { class: "trial classify" },
      progress(texts, trial.number, trial.total),
      el("h1", {}, say(texts, "question_classify")),
      el(
        "div",
        { class: "beside" },
        figure(image, say(texts, "image_label")),
        el("div", { class: "choices" }, ...choices.map((one) => one.button)),
      ),
    );
    return ask(display, root, choices, onLoad);
  }

  simulate(trial: TrialType<Info>, mode: Mode, options: Options, onLoad?: () => void): Promise<object> {
    const display = this.jsPsych.getDisplayElement();
    const data = simulatedAnswer(
      this.jsPsych,
      (trial.labels as Label[]).map((label) => label.name),
      options,
    );
    const act = (given: Given): void => press(display, given.response);
    return simulateTrial(this.jsPsych, mode, data, () => this.trial(display, trial, onLoad), act, onLoad);
  }
}
