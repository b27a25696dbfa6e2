/** Elements made by functions: data enters the page as text, never as HTML. */

export type Child = Node | string | null;

/** One element with attributes and children; a null child is left out. */
export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Readonly<Record<string, string>> = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** The paragraphs of a text: a blank line starts a new one. */
export function paragraphs(text: string): HTMLParagraphElement[] {
  const parts = text.trim().split(/\n\s*\n/);
  return parts.map((part) => el("p", {}, part.replace(/\s+/g, " ")));
}

/** A button that calls `act` when it is used. */
export function button(
  label: Child,
  act: () => void,
  attributes: Readonly<Record<string, string>> = {},
): HTMLButtonElement {
  const made = el("button", { type: "button", ...attributes }, label);
  made.addEventListener("click", act);
  return made;
}

/** A page of text: a heading (where there is one) and what stands below it. */
export function page(heading: string | null, ...children: readonly Child[]): HTMLElement {
  return el("main", { class: "page" }, heading === null ? null : el("h1", {}, heading), ...children);
}
