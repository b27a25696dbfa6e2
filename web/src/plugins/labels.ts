/** The label space as buttons. */

import type { Label } from "../api";
import { el } from "../dom";
import type { Choice } from "../keys";
import { say, type Texts } from "../texts";

/** A key as printed on its button. */
export function keyCap(texts: Texts, key: string): HTMLElement {
  const shown = key === "space" ? say(texts, "space_key") : key.toUpperCase();
  return el("kbd", { "aria-label": say(texts, "key_hint", { key: shown }) }, shown);
}

/** A button for an answer: icon (where there is one), title and key. */
export function choiceButton(
  texts: Texts,
  title: string,
  key: string | null,
  icon: string | null = null,
): HTMLButtonElement {
  const picture = icon === null ? null : el("img", { src: icon, alt: "", class: "icon" });
  return el(
    "button",
    { type: "button", class: "choice" },
    picture,
    el("span", {}, title),
    key === null ? null : keyCap(texts, key),
  );
}

/** One choice a label, with its icon where icons are wanted. */
export function labelChoices(texts: Texts, labels: readonly Label[], { icons = false } = {}): Choice[] {
  return labels.map(({ name, title, key, icon }) => {
    const button = choiceButton(texts, title, key, icons ? icon : null);
    button.dataset["response"] = name;
    button.classList.toggle("apart", key === "space"); // to abstain is no class among the others
    return { response: name, key, button };
  });
}

/** Press the button of an answer, as a simulated participant does. */
export function press(display: HTMLElement, response: unknown): void {
  const all = [...display.querySelectorAll<HTMLButtonElement>("button[data-response]")];
  all.find((one) => one.dataset["response"] === String(response))?.click();
}
