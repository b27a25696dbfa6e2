/** Fixation, an image for a short time, then the icons for a short time. */

import { ParameterType, type JsPsych, type JsPsychPlugin, type TrialType } from "jspsych";

import type { Label, Timing } from "../api";
import { el } from "../dom";
import { exposureOf, FrameClock, pixelsOf, watchSight, watchWindow, type Shown } from "../frames";
import { firstOf, type Choice, type Chosen } from "../keys";
import { say, type Texts } from "../texts";
import { labelChoices, press } from "./labels";
import {
  COMMON,
  figure,
  notePointer,
  RECORDED,
  seconds,
  simulatedAnswer,
  simulateTrial,
  VERSION,
  type Given,
  type Loader,
  type Mode,
  type Options,
} from "./shared";

const info = {
  name: "timed",
  version: VERSION,
  parameters: {
    ...COMMON,
    image: { type: ParameterType.STRING, default: undefined },
    labels: { type: ParameterType.OBJECT, array: true, default: undefined },
    timing: { type: ParameterType.OBJECT, default: undefined },
    pixelsPerCm: { type: ParameterType.FLOAT, default: undefined },
  },
  data: {
    ...RECORDED,
    /** a label's name, or null when no answer came in time */
    response: { type: ParameterType.STRING },
    /** the measured exposure: asked, onset, offset, exposure, frame (s), late, windowed */
    shown: { type: ParameterType.OBJECT },
  },
} as const;

type Info = typeof info;

export class TimedPlugin implements JsPsychPlugin<Info> {
  static info = info;

  constructor(readonly jsPsych: JsPsych) {}

  async trial(display: HTMLElement, trial: TrialType<Info>, onLoad?: () => void): Promise<Given & { shown: Shown }> {
    const timing = trial.timing as Timing;
    const image = await (trial.load as Loader)(trial.image);
    const stage = new Stage(trial.texts as Texts, image, trial.labels as Label[]);
    stage.size(pixelsOf(timing.degrees, timing.distance, trial.pixelsPerCm));
    notePointer(stage.root);
    display.replaceChildren(stage.root);
    await image.decode(); // again: a decoded image may have been let go while it was not in the page
    onLoad?.();
    return stage.run(timing);
  }

  simulate(trial: TrialType<Info>, mode: Mode, options: Options, onLoad?: () => void): Promise<object> {
    const display = this.jsPsych.getDisplayElement();
    const data = simulatedAnswer(
      this.jsPsych,
      (trial.labels as Label[]).map((label) => label.name),
      options,
    );
    const { exposure } = trial.timing as Timing;
    const shown: Shown = {
      asked: exposure,
      onset: 0,
      offset: exposure,
      exposure,
      frame: seconds(1000 / 60),
      late: false,
      windowed: false,
    };
    const act = (given: Given): void => press(display, given.response);
    return simulateTrial(
      this.jsPsych,
      mode,
      { ...data, shown } as Given,
      () => this.trial(display, trial, onLoad),
      act,
      onLoad,
    );
  }
}

/** The three screens of a trial, all in the page from the start so that only their visibility changes. */
class Stage {
  readonly root: HTMLElement;
  readonly #choices: Choice[];
  readonly #prompt: HTMLElement;
  readonly #clock = new FrameClock();
  readonly #image: HTMLImageElement;

  constructor(texts: Texts, image: HTMLImageElement, labels: readonly Label[]) {
    this.#image = image;
    this.#choices = labelChoices(texts, labels, {
      icons: labels.every(({ icon, key }) => icon !== null || key === "space"),
    });
    this.#prompt = el("p", { class: "prompt", "aria-live": "assertive" }, say(texts, "answer_now"));
    const grid = el("div", { class: "grid" }, ...this.#choices.map((one) => one.button));
    grid.style.setProperty("--side", String(sideOf(labels)));
    this.root = el(
      "main",
      { class: "trial timed", "data-state": "fixation" },
      el("div", { class: "fixation", "aria-hidden": "true" }, "+"),
      el("div", { class: "exposure" }, figure(image, say(texts, "image_label"))),
      el("div", { class: "answers" }, el("h1", {}, say(texts, "question_timed")), grid, this.#prompt),
    );
  }

  size(pixels: number): void {
    this.#image.style.width = `${pixels}px`;
    this.#image.style.height = "auto";
  }

  async run(timing: Timing): Promise<Given & { shown: Shown }> {
    const start = await this.#clock.next();
    const [wasHidden, wasWindowed] = [watchSight(), watchWindow()];
    const onset = await this.#clock.until(start, timing.fixation);
    this.root.dataset["state"] = "exposure";
    const offset = await this.#clock.until(onset, timing.exposure);
    this.root.dataset["state"] = "ready";
    const answer = this.#answer(offset, timing); // from this frame on
    await this.#clock.next();
    const shown = exposureOf(timing.exposure, [...this.#clock.stamps], onset, offset);
    const given = await answer;
    return { ...given, shown: { ...shown, late: wasHidden() || shown.late, windowed: wasWindowed() } };
  }

  async #answer(offset: number, timing: Timing): Promise<Given> {
    const chosen = await Promise.race([firstOf(this.root, this.#choices, offset), this.#deadline(offset, timing)]);
    if (chosen === null) return { response: null, rt: null, input: null };
    return { response: chosen.response, rt: seconds(chosen.at - offset), input: chosen.input };
  }

  async #deadline(offset: number, timing: Timing): Promise<Chosen | null> {
    const frames = new FrameClock();
    await frames.until(offset, timing.response - timing.prompt);
    this.#prompt.classList.add("now");
    await frames.until(offset, timing.response);
    return null;
  }
}

/** Columns of the grid: as square as it can be, with `abstain` below it. */
export function sideOf(labels: readonly Label[]): number {
  return Math.ceil(Math.sqrt(labels.filter((label) => label.key !== "space").length));
}
