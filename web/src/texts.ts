/** The sentences of the page, which come from the study so that it can be translated. */

export type Texts = Readonly<Record<string, string>>;

/** What can be needed before the server has sent the study's own sentences. */
export const BEFORE: Texts = {
  loading: "One moment, please.",
  connection_lost: "The connection is lost. Your answers are kept and will be sent when it is back.",
  other_tab: "This study is open in another tab or window. Please go on there.",
  continue_here: "Go on here instead",
  failed: "Something went wrong. Please reload this page; if this comes back, tell the experimenter.",
  error_line: "Message: {error}",
};

/** Languages that are written from right to left: those of Unicode's CLDR that browsers have. */
const LEFTWARDS = /^(ar|arc|ckb|dv|fa|he|ks|ps|sd|ug|ur|yi)(-|$)/i;

/** How a language is written, as the page's `dir`. */
export function directionOf(language: string): "ltr" | "rtl" {
  return LEFTWARDS.test(language) ? "rtl" : "ltr";
}

/** The sentence called `key`, with the words in braces filled in. */
export function say(texts: Texts, key: string, values: Readonly<Record<string, string | number>> = {}): string {
  const text = texts[key];
  if (text === undefined) throw new Error(`the study's texts lack "${key}"; add it to texts.toml`);
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole));
}
