/** The last page of a visit: the completion code, or why it ends here. */

import { Refused, type Completion } from "./api";
import { button, el, page, paragraphs, type Child } from "./dom";
import { say, type Texts } from "./texts";

/** The visit is over; `text` names the sentence that says why, `url` leads back to the platform. */
export class Over extends Error {
  constructor(
    readonly text: string,
    readonly url: string | null = null,
  ) {
    super(text);
  }
}

/** MTurk's form: where it is sent, and what it contains. */
export interface Submission {
  readonly action: string;
  readonly fields: Readonly<Record<string, string>>;
}

/** The form for a task that MTurk shows inside its own page; null for any other visit. */
export function submission(
  hosts: readonly string[],
  { turkSubmitTo, ...platform }: Readonly<Record<string, string>>,
  code: string,
): Submission | null {
  const host = (turkSubmitTo ?? "").replace(/\/$/, "");
  if (!hosts.includes(host) || platform["assignmentId"] === undefined) return null;
  return { action: `${host}/mturk/externalSubmit`, fields: { ...platform, code } };
}

/** Thanks, and the code to take back to the platform, or its form. */
export function completed(
  texts: Texts,
  { code, url }: Completion,
  bonus: string | null,
  form: Submission | null,
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
  const written = el("p", { class: "code" }, el("label", { for: "code" }, say(texts, "done_code")), field, copy, said);
  return page(
    say(texts, "done_heading"),
    ...paragraphs(say(texts, "done_text")),
    bonus === null ? null : el("p", {}, bonus),
    ...(form === null ? [written, link] : [submitForm(texts, form)]),
    nextPerson,
  );
}

function submitForm(texts: Texts, { action, fields }: Submission): HTMLElement {
  const hidden = Object.entries(fields).map(([name, value]) => el("input", { type: "hidden", name, value }));
  const send = el("button", { type: "submit", class: "primary" }, say(texts, "mturk_submit"));
  return el("form", { method: "post", action, id: "submit" }, ...hidden, el("div", { class: "buttons" }, send));
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
  if (error instanceof Over) return page(null, ...paragraphs(say(texts, error.text)), wayBack(texts, error.url));
  if (error instanceof Refused && error.status === 423) return page(null, ...paragraphs(say(texts, "unavailable")));
  if (error instanceof Refused && error.status === 403) return page(null, el("p", {}, error.message));
  const line = say(texts, "error_line", { error: error instanceof Error ? error.message : String(error) });
  return page(null, ...paragraphs(say(texts, "failed")), el("p", { class: "small" }, line));
}

function wayBack(texts: Texts, url: string | null): Child {
  return url ? el("p", {}, el("a", { href: url, class: "primary" }, say(texts, "platform_return"))) : null;
}

function otherTab(texts: Texts): HTMLElement {
  const here = button(say(texts, "continue_here"), () => location.reload(), { class: "primary" });
  return page(null, ...paragraphs(say(texts, "other_tab")), el("div", { class: "buttons" }, here));
}
