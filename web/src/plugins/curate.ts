/** Keep an image or reject it with a reason: one key per image. */

import { ParameterType, type JsPsych, type JsPsychPlugin, type TrialType } from "jspsych";

import { el } from "../dom";
import type { Choice } from "../keys";
import { say, type Texts } from "../texts";
import { choiceButton, press } from "./labels";
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
  name: "curate",
  version: VERSION,
  parameters: {
    ...COMMON,
    image: { type: ParameterType.STRING, default: undefined },
    title: { type: ParameterType.STRING, default: null },
    reasons: { type: ParameterType.STRING, array: true, default: undefined },
  },
  /** {keep: true} or {keep: false, reason} */
  data: { ...RECORDED, response: { type: ParameterType.OBJECT } },
} as const;

type Info = typeof info;

export class CuratePlugin implements JsPsychPlugin<Info> {
  static info = info;

  constructor(readonly jsPsych: JsPsych) {}

  async trial(display: HTMLElement, trial: TrialType<Info>, onLoad?: () => void): Promise<Given> {
    const texts = trial.texts as Texts;
    const image = await (trial.load as Loader)(trial.image);
    const choices = [keeping(texts), ...trial.reasons.map((reason, index) => rejecting(texts, reason, index))];
    const root = el(
      "main",
      { class: "trial curate" },
      progress(texts, trial.number, trial.total),
      el("h1", {}, say(texts, "question_curate")),
      trial.title == null ? null : el("p", {}, say(texts, "meant_curate", { title: trial.title })),
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
    const responses = [{ keep: true }, ...trial.reasons.map((reason) => ({ keep: false, reason }))];
    const data = simulatedAnswer(this.jsPsych, responses, options);
    const act = (given: Given): void => press(display, JSON.stringify(given.response));
    return simulateTrial(this.jsPsych, mode, data, () => this.trial(display, trial, onLoad), act, onLoad);
  }
}

function keeping(texts: Texts): Choice {
  return choice({ keep: true }, "k", choiceButton(texts, say(texts, "keep"), "k"));
}

function rejecting(texts: Texts, reason: string, index: number): Choice {
  const key = String(index + 1);
  return choice({ keep: false, reason }, key, choiceButton(texts, reason, key));
}

function choice(response: object, key: string, button: HTMLButtonElement): Choice {
  button.dataset["response"] = JSON.stringify(response);
  return { response, key, button };
}
