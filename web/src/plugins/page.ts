/** A page that is no trial: consent, questions, instructions, a break. */

import { ParameterType, type JsPsych, type JsPsychPlugin, type TrialType } from "jspsych";

import { VERSION, type Mode, type Options } from "./shared";

const info = {
  name: "page",
  version: VERSION,
  parameters: {
    /** Makes the page; is given what to call with the page's data when the participant goes on. */
    build: { type: ParameterType.FUNCTION, default: undefined },
  },
  data: {
    /** true when the participant went on, absent when the page was broken off */
    gone_on: { type: ParameterType.BOOL },
  },
} as const;

type Info = typeof info;

export class PagePlugin implements JsPsychPlugin<Info> {
  static info = info;

  constructor(readonly jsPsych: JsPsych) {}

  trial(display: HTMLElement, trial: TrialType<Info>): void {
    const root = trial.build((data: object) => this.jsPsych.finishTrial({ ...data, gone_on: true })) as HTMLElement;
    display.replaceChildren(root);
    window.scrollTo(0, 0);
    root.querySelector<HTMLElement>("[data-focus]")?.focus();
  }

  simulate(trial: TrialType<Info>, mode: Mode, _options: Options, onLoad?: () => void): void {
    if (mode === "visual") this.trial(this.jsPsych.getDisplayElement(), trial);
    onLoad?.();
    if (mode === "visual") this.jsPsych.getDisplayElement().querySelector<HTMLButtonElement>("button.primary")?.click();
    else this.jsPsych.finishTrial({});
  }
}
