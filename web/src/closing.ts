/** The last page of a visit: the completion code, or why it ends here. */

import { Refused, type Completion } from "./api";
import { button, el, page, paragraphs, type Child } from "./dom";
import { say, type Texts } from "./texts";

/** The visit is over; `text` names the sentence that says why. */
export class Over extends Error {
  constructor(readonly text: string) {
    super(text);
  }
}

/** Thanks, and the code to take back to the platform. */
export function completed(
  texts: Texts,
  { code, url }: Completion,
  bonus: string | null,
  nextPerson: Child,
): HTMLElement {
  const field = el("input", {
    type: "text",
    readonly: "",
    value: code,
    id: "code",
    "aria-label": say(texts, "done_code"),
  });
  const said = el("span", { role: "status" });
  const copy = button(
    say(texts, "copy"),
    () => void copyFrom(field).then(() => said.replaceChildren(say(texts, "copied"))),
    { class: "primary" },
  );
  const link = url ? el("p", {}, el("a", { href: url, class: "primary" }, say(texts, "done_link"))) : null;
  return page(
    say(texts, "done_heading"),
    ...paragraphs(say(texts, "done_text")),
    bonus === null ? null : el("p", {}, bonus),
    el("p", { class: "code" }, el("label", { for: "code" }, say(texts, "done_code")), field, copy, said),
    link,
    nextPerson,
  );
}

async function copyFrom(field: HTMLInputElement): Promise<void> {
  field.select();
  // the clipboard interface needs a secure origin, which a laptop in a lab is not
  if (navigator.clipboard === undefined) document.execCommand("copy");
  else await navigator.clipboard.writeText(field.value).catch(() => document.execCommand("copy"));
}

/** Why the visit ends before its time. */
export function ended(texts: Texts, error: unknown): HTMLElement {
  if (error instanceof Over && error.text === "other_tab") return otherTab(texts);
  if (error instanceof Over) return page(null, ...paragraphs(say(texts, error.text)));
  if (error instanceof Refused && error.status === 423) return page(null, ...paragraphs(say(texts, "unavailable")));
  if (error instanceof Refused && error.status === 403) return page(null, el("p", {}, error.message));
  const line = say(texts, "error_line", { error: error instanceof Error ? error.message : String(error) });
  return page(null, ...paragraphs(say(texts, "failed")), el("p", { class: "small" }, line));
}

function otherTab(texts: Texts): HTMLElement {
  const here = button(say(texts, "continue_here"), () => location.reload(), { class: "primary" });
  return page(null, ...paragraphs(say(texts, "other_tab")), el("div", { class: "buttons" }, here));
}
