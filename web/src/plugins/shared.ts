/** What the plugins have in common: the loader of images, the first answer, the simulated participant. */

import { ParameterType, type JsPsych } from "jspsych";

import { el } from "../dom";
import { firstOf, type Choice } from "../keys";
import { say, type Texts } from "../texts";

export type Loader = (url: string) => Promise<HTMLImageElement>;

/** jsPsych's modes of simulation, and what a test may lay down about the simulated answer. */
export type Mode = "data-only" | "visual";
export interface Options {
  readonly data?: Partial<Given>;
}

export const VERSION = "1.0.0"; // of our plugins, as jsPsych wants one

/** ms after the painting of a trial during which input is not an answer: the second half of a double click on the trial
 * before. Simple reactions to light take about 200 ms at best, so no answer to this image can come so early. */
const GUARD = 200;

/** Parameters of every trial type. */
export const COMMON = {
  load: { type: ParameterType.FUNCTION, default: undefined },
  texts: { type: ParameterType.OBJECT, default: undefined },
  number: { type: ParameterType.INT, default: undefined },
  total: { type: ParameterType.INT, default: undefined },
} as const;

/** What every trial type records. */
export const RECORDED = {
  /** Seconds from the painting of what is judged (timed: of the icons) to the answer. */
  rt: { type: ParameterType.FLOAT },
  /** mouse, key or touch. */
  input: { type: ParameterType.STRING },
} as const;

export interface Given {
  readonly response: unknown;
  readonly rt: number | null;
  readonly input: string | null;
}

/** Mark `root` once the pointer has moved in it. Only then is the button below the pointer marked: at the start of a trial
 * it is where the last answer was given, and its button would look chosen. */
export function notePointer(root: HTMLElement): void {
  root.addEventListener("mousemove", ({ movementX, movementY }) => {
    // a browser also reports a move when the page changes below a resting pointer
    if (movementX !== 0 || movementY !== 0) root.classList.add("pointed");
  });
}

/** Show `root`; the trial is painted, and takes answers, once its `data-state` is "ready". Resolves with the onset. */
export async function present(display: HTMLElement, root: HTMLElement, onLoad?: () => void): Promise<number> {
  const buttons = root.querySelectorAll("button");
  for (const one of buttons) one.disabled = true;
  notePointer(root);
  display.replaceChildren(root);
  const onset = await new Promise<number>((resolve) => requestAnimationFrame(resolve));
  onLoad?.();
  await new Promise((resolve) => setTimeout(resolve, GUARD));
  for (const one of buttons) one.disabled = false;
  root.dataset["state"] = "ready";
  return onset;
}

/** Show `root` and wait for the first of the choices. */
export async function ask(
  display: HTMLElement,
  root: HTMLElement,
  choices: readonly Choice[],
  onLoad?: () => void,
): Promise<Given> {
  const onset = await present(display, root, onLoad);
  const { response, at, input } = await firstOf(root, choices, onset);
  return { response, rt: seconds(at - onset), input };
}

/** Milliseconds as seconds, to the microsecond. */
export function seconds(ms: number): number {
  return Math.round(ms * 1000) / 1e6;
}

/** How far the participant has come. */
export function progress(texts: Texts, number: number, total: number): HTMLElement {
  const words = say(texts, "progress", { number, total });
  const bar = el("progress", { max: String(total), value: String(number - 1), "aria-label": words });
  return el("div", { class: "progress" }, bar, el("span", { "aria-hidden": "true" }, words));
}

/** A loaded image in a frame. The text for screen readers says what it is for, not what it shows. */
export function figure(image: HTMLImageElement, label: string): HTMLElement {
  image.alt = label;
  image.draggable = false;
  return el("div", { class: "figure" }, image);
}

/** jsPsych's simulation: "data-only" makes the data, "visual" shows the page and has `act` answer like a person. */
export async function simulateTrial(
  jsPsych: JsPsych,
  mode: Mode,
  data: Given,
  show: () => Promise<Given | void>,
  act: (data: Given) => void,
  onLoad?: () => void,
): Promise<object> {
  if (mode === "data-only") {
    onLoad?.();
    return data;
  }
  const shown = show();
  const display = jsPsych.getDisplayElement();
  await appears(display, "[data-state=ready]");
  await new Promise((resolve) => setTimeout(resolve, (data.rt ?? 0) * 1000));
  act(data);
  return (await shown) ?? {};
}

/** Resolves when something in `display` matches. */
function appears(display: HTMLElement, selector: string): Promise<void> {
  return new Promise((resolve) => {
    const look = (): void => void (display.querySelector(selector) ? resolve() : requestAnimationFrame(look));
    look();
  });
}

/** A simulated participant's answer: one of `responses` at random, after a plausible time. */
export function simulatedAnswer(jsPsych: JsPsych, responses: readonly unknown[], options: Options): Given {
  const rt = seconds(jsPsych.randomization.sampleExGaussian(600, 60, 1 / 150, true));
  const response = jsPsych.randomization.sampleWithoutReplacement([...responses], 1)[0];
  return { response, rt, input: "mouse", ...options.data };
}
