/** What comes before the trials: consent, questions, screen, instructions. */

import FullscreenPlugin from "@jspsych/plugin-fullscreen";

import type { Opened, Study } from "./api";
import { button, el, page, paragraphs, type Child } from "./dom";
import { PagePlugin } from "./plugins/page";
import { say, type Texts } from "./texts";

export type Node = Record<string, unknown>;

/** What the pages tell the rest of the program; each resolves when the server has it. */
export interface Reports {
  readonly consented: () => Promise<void>;
  readonly declined: () => void;
  readonly screened: (question: string, eligible: boolean) => Promise<void>;
  readonly demographics: (values: Record<string, string>) => Promise<void>;
  readonly calibrated: (pixelsPerCm: number) => Promise<void>;
}

/** The pages that this participant has not been through yet. */
export function opening({ study, session }: Opened, reports: Reports): Node[] {
  const timed = study.timing !== null;
  return [
    ...(study.consent && !session.consented ? [consent(study.texts, reports)] : []),
    ...session.screening.map((question) => screening(study.texts, question, reports)),
    ...(study.demographics.length > 0 && !session.demographics ? [demographics(study, reports)] : []),
    ...(timed && study.calibration && session.pixels_per_cm === null ? [calibration(study.texts, reports)] : []),
    ...(session.answered === 0 ? [instructions(study)] : []),
    ...(timed ? [fullscreen(study.texts, study.timing.distance)] : []),
  ];
}

/** `report` hears what the participant gave, but not of a page that was broken off. */
function node(
  build: (done: (data: object) => void) => HTMLElement,
  report: (data: Node) => unknown = () => undefined,
): Node {
  const on_finish = (data: Node): unknown => (data["gone_on"] ? report(data) : undefined);
  return { type: PagePlugin, build, on_finish };
}

/** The button that leads on; it holds the focus, so that Enter is enough. */
function onward(label: string, act: () => void): HTMLButtonElement {
  return button(label, act, { class: "primary", "data-focus": "" });
}

function consent(texts: Texts, reports: Reports): Node {
  const build = (done: (data: object) => void): HTMLElement =>
    page(
      say(texts, "consent_heading"),
      ...paragraphs(say(texts, "consent_text")),
      el(
        "div",
        { class: "buttons" },
        button(say(texts, "consent_decline"), reports.declined),
        button(say(texts, "consent_agree"), () => done({}), { class: "primary" }),
      ),
    );
  return node(build, reports.consented);
}

/** A question on a page of its own: who answers no goes no further. */
function screening(texts: Texts, question: string, reports: Reports): Node {
  const build = (done: (data: object) => void): HTMLElement =>
    page(
      say(texts, "screening_heading"),
      ...paragraphs(say(texts, `screening_${question}`)),
      el(
        "div",
        { class: "buttons" },
        button(say(texts, "screening_no"), () => done({ eligible: false })),
        button(say(texts, "screening_yes"), () => done({ eligible: true }), { class: "primary" }),
      ),
    );
  return node(build, (data) => reports.screened(question, data["eligible"] as boolean));
}

function demographics(study: Study, reports: Reports): Node {
  const build = (done: (data: object) => void): HTMLElement => {
    const fields = study.demographics.map((name) => field(study.texts, name));
    const values = (): object =>
      Object.fromEntries(fields.flatMap(([name, input]) => (input.value.trim() ? [[name, input.value.trim()]] : [])));
    const form = el(
      "form",
      {},
      ...fields.map(([, input, label]) => el("label", {}, label, input)),
      submit(study.texts),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      done({ values: values() });
    });
    return page(say(study.texts, "demographics_heading"), ...paragraphs(say(study.texts, "demographics_text")), form);
  };
  return node(build, (data) => reports.demographics(data["values"] as Record<string, string>));
}

function field(texts: Texts, name: string): [string, HTMLInputElement, string] {
  const input = el("input", { type: "text", name, maxlength: "100", autocomplete: "off" });
  return [name, input, say(texts, `demographics_${name}`)];
}

function submit(texts: Texts): HTMLElement {
  return el("div", { class: "buttons" }, el("button", { type: "submit", class: "primary" }, say(texts, "next")));
}

const CARD_CM = 8.56; // the width of a bank card, ISO/IEC 7810 ID-1

/** CSS pixels per cm where nothing was measured: an inch of CSS is 96 pixels. */
export const NOMINAL_PIXELS_PER_CM = 96 / 2.54;

function calibration(texts: Texts, reports: Reports): Node {
  const build = (done: (data: object) => void): HTMLElement => {
    const widest = Math.floor(document.documentElement.clientWidth - 48);
    const slider = el("input", {
      type: "range",
      min: "100",
      max: String(widest),
      value: String(Math.round(CARD_CM * NOMINAL_PIXELS_PER_CM)),
      "aria-label": say(texts, "calibration_slider"),
      "data-focus": "",
    });
    const card = el("div", { class: "card", "aria-hidden": "true" });
    const draw = (): void => card.style.setProperty("width", `${slider.value}px`);
    slider.addEventListener("input", draw);
    draw();
    const ready = button(say(texts, "calibration_done"), () => done({ pixelsPerCm: Number(slider.value) / CARD_CM }), {
      class: "primary",
    });
    const words = paragraphs(say(texts, "calibration_text"));
    const root = page(
      say(texts, "calibration_heading"),
      ...words,
      card,
      slider,
      el("div", { class: "buttons" }, ready),
    );
    root.classList.add("wide"); // a card may need more room than text
    return root;
  };
  return node(build, (data) => reports.calibrated(data["pixelsPerCm"] as number));
}

function instructions(study: Study): Node {
  const { texts } = study;
  const build = (done: (data: object) => void): HTMLElement =>
    page(
      say(texts, "instructions_heading"),
      ...paragraphs(say(texts, `instructions_${study.type}`)),
      examples(study),
      el(
        "div",
        { class: "buttons" },
        onward(say(texts, "start"), () => done({})),
      ),
    );
  return node(build);
}

function examples({ texts, labels, examples: shown }: Study): Child {
  if (shown.length === 0) return null;
  const figures = shown.map(({ image, answer }) => {
    const title = labels.find((label) => label.name === answer)?.title ?? answer;
    const words = say(texts, "example_answer", { answer: title });
    return el("figure", {}, el("img", { src: image, alt: say(texts, "image_label") }), el("figcaption", {}, words));
  });
  return el("section", {}, el("h2", {}, say(texts, "examples_heading")), el("div", { class: "examples" }, ...figures));
}

/** jsPsych's own plugin, with our words put in as text once its button is there. */
function fullscreen(texts: Texts, distance: number): Node {
  const fill = (): void => {
    const start = document.querySelector<HTMLButtonElement>("#jspsych-fullscreen-btn");
    if (start === null) return; // a browser without full screen continues without a click
    start.className = "primary";
    start.textContent = say(texts, "fullscreen_button");
    start.before(
      ...paragraphs(say(texts, "distance_text", { distance })),
      ...paragraphs(say(texts, "fullscreen_text")),
    );
    start.focus();
  };
  return { type: FullscreenPlugin, message: "", button_label: "", css_classes: "page", on_load: fill };
}
