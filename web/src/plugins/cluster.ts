/** Three images above, several below: each of those below goes to the column that it looks most like. */

import { ParameterType, type JsPsych, type JsPsychPlugin, type TrialType } from "jspsych";

import { button, el } from "../dom";
import { inputOf, onKeys, type Input } from "../keys";
import { say, type Texts } from "../texts";
import {
  COMMON,
  figure,
  present,
  progress,
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
  name: "cluster",
  version: VERSION,
  parameters: {
    ...COMMON,
    columns: { type: ParameterType.STRING, array: true, default: undefined },
    rows: { type: ParameterType.STRING, array: true, default: undefined },
  },
  /** the column (from 0) of each row */
  data: { ...RECORDED, response: { type: ParameterType.INT, array: true } },
} as const;

type Info = typeof info;

export class ClusterPlugin implements JsPsychPlugin<Info> {
  static info = info;

  constructor(readonly jsPsych: JsPsych) {}

  async trial(display: HTMLElement, trial: TrialType<Info>, onLoad?: () => void): Promise<Given> {
    const texts = trial.texts as Texts;
    const load = trial.load as Loader;
    const [columns, rows] = await Promise.all([
      Promise.all(trial.columns.map(load)),
      Promise.all(trial.rows.map(load)),
    ]);
    const board = new Board(texts, columns, rows);
    const root = el(
      "main",
      { class: "trial cluster" },
      progress(texts, trial.number, trial.total),
      el("h1", {}, say(texts, "question_cluster")),
      ...board.elements,
    );
    const onset = await present(display, root, onLoad);
    const { at, input } = await board.done(root);
    return { response: [...board.choices], rt: seconds(at - onset), input };
  }

  simulate(trial: TrialType<Info>, mode: Mode, options: Options, onLoad?: () => void): Promise<object> {
    const display = this.jsPsych.getDisplayElement();
    const columns = trial.columns.map((_, index) => index);
    const response = this.jsPsych.randomization.sampleWithReplacement(columns, trial.rows.length) as number[];
    const data = simulatedAnswer(this.jsPsych, [response], options);
    const act = (given: Given): void => pressAll(display, given.response as number[]);
    return simulateTrial(this.jsPsych, mode, data, () => this.trial(display, trial, onLoad), act, onLoad);
  }
}

/** The rows, the choice made in each, and the button that ends the trial. */
class Board {
  readonly choices: (number | null)[];
  readonly elements: HTMLElement[];
  readonly #rows: HTMLElement[];
  readonly #finish: HTMLButtonElement;
  #active = 0;

  constructor(texts: Texts, columns: readonly HTMLImageElement[], rows: readonly HTMLImageElement[]) {
    this.choices = rows.map(() => null);
    this.#rows = rows.map((image, row) => this.#row(texts, image, row, columns.length));
    this.#finish = el(
      "button",
      { type: "button", class: "primary", "aria-disabled": "true" },
      say(texts, "cluster_done"),
    );
    this.elements = [
      el("div", { class: "columns" }, ...columns.map((image, column) => columnOf(texts, image, column))),
      el("div", { class: "rows" }, ...this.#rows),
      this.#finish,
    ];
    this.#mark();
  }

  /** Resolves when every row has a choice and the participant goes on. */
  done(root: HTMLElement): Promise<{ at: number; input: Input }> {
    return new Promise((resolve) => {
      this.#finish.addEventListener("click", (event) => {
        if (this.#complete()) resolve({ at: event.timeStamp, input: inputOf(event) });
      });
      onKeys(root, (key, event) => {
        if (key === "enter" && this.#complete()) resolve({ at: event.timeStamp, input: "key" });
        if (this.#press(key)) event.preventDefault();
      });
    });
  }

  #row(texts: Texts, image: HTMLImageElement, row: number, columns: number): HTMLElement {
    const buttons = Array.from({ length: columns }, (_, column) => {
      const label = say(texts, "choice_label", { row: row + 1, column: column + 1 });
      return button(String(column + 1), () => this.#choose(row, column), {
        class: "choice",
        "aria-label": label,
        "aria-pressed": "false",
      });
    });
    const label = say(texts, "row_label", { row: row + 1 });
    return el(
      "div",
      { class: "row", role: "group", "aria-label": label },
      figure(image, label),
      el("div", { class: "columns-of-row" }, ...buttons),
    );
  }

  /** A key: a column for the active row, or an arrow to another row. */
  #press(key: string): boolean {
    const column = Number(key) - 1;
    const step = { arrowdown: 1, arrowup: -1 }[key];
    if (step !== undefined) this.#active = (this.#active + step + this.#rows.length) % this.#rows.length;
    else if (this.#buttons(this.#active)[column] !== undefined) this.#choose(this.#active, column);
    else return false;
    this.#mark();
    return true;
  }

  #choose(row: number, column: number): void {
    this.choices[row] = column;
    const open = this.choices.indexOf(null);
    this.#active = open === -1 ? row : open;
    this.#mark();
  }

  #mark(): void {
    this.#rows.forEach((element, row) => {
      element.classList.toggle("active", row === this.#active);
      this.#buttons(row).forEach((one, column) =>
        one.setAttribute("aria-pressed", String(this.choices[row] === column)),
      );
    });
    this.#finish.setAttribute("aria-disabled", String(!this.#complete()));
  }

  #buttons(row: number): HTMLButtonElement[] {
    return [...(this.#rows[row]?.querySelectorAll("button") ?? [])];
  }

  #complete(): boolean {
    return !this.choices.includes(null);
  }
}

function columnOf(texts: Texts, image: HTMLImageElement, column: number): HTMLElement {
  const label = say(texts, "column_label", { column: column + 1 });
  return el("div", { class: "column" }, figure(image, label), el("kbd", { "aria-hidden": "true" }, String(column + 1)));
}

function pressAll(display: HTMLElement, columns: readonly number[]): void {
  const rows = [...display.querySelectorAll(".row")];
  rows.forEach((row, index) => row.querySelectorAll("button")[columns[index] ?? 0]?.click());
  display.querySelector<HTMLButtonElement>(".primary")?.click();
}
