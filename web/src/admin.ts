/** The experimenter's page: how far the study is, how well people agree, whom to look at. */

import { Refused, request, Unreachable } from "./api";
import { button, el, page, type Child } from "./dom";

interface State {
  readonly study: { readonly name: string; readonly type: string };
  readonly simulated: boolean; // nobody real has come yet: all counts are of simulated people
  readonly paused: boolean;
  readonly participants: {
    readonly started: number;
    readonly active: number;
    readonly finished: number;
    readonly released: number;
  };
  readonly answers: { readonly given: number; readonly wanted: number };
  readonly counts: readonly { readonly answers: number; readonly open: number; readonly images: number }[];
  readonly agreement: readonly Agreement[];
  readonly flagged: readonly { readonly participant: string; readonly reasons: readonly string[] }[];
}

/** Some images of the set: the page asks for the part that it shows. */
interface Images {
  readonly first: number;
  readonly total: number;
  readonly images: readonly {
    readonly image: string;
    readonly answers: number;
    readonly open: number;
    readonly wanted: number;
  }[];
}

interface Agreement {
  readonly measure: string;
  readonly observer: string; // people or simulated people
  readonly value: number | null;
  readonly low: number | null;
  readonly high: number | null;
  readonly n: number | null;
  readonly note: string | null;
}

const KEPT = "cosight-admin";
const PART = 100; // images that the page shows at a time
const EVERY = 4000; // ms between two looks at the state
const NUMBERS = /^-?[\d.]+( (of|to) -?[\d.]+)?$/; // "7", "0.314", "3 of 9", "-0.1 to 0.2"

const stage = document.querySelector<HTMLElement>("#stage")!;
const notice = document.querySelector<HTMLElement>("#notice")!;

let first = 0; // the first image that the page shows

async function look(token: string): Promise<void> {
  const state = await request<State>("GET", "/api/admin/state", token);
  draw(token, state, await request<Images>("GET", `/api/admin/images?first=${first}`, token));
}

/** Look, draw, and look again as long as the page is open. */
async function watch(token: string): Promise<void> {
  for (;;) {
    try {
      await look(token);
      sessionStorage.setItem(KEPT, token);
      say(null);
    } catch (error) {
      if (error instanceof Refused) return askToken(error.message);
      if (!(error instanceof Unreachable)) throw error;
      say("The server does not answer. Trying again.");
    }
    await new Promise((resolve) => setTimeout(resolve, EVERY));
  }
}

function say(line: string | null): void {
  notice.textContent = line ?? "";
  notice.hidden = line === null;
}

function askToken(error: string | null): void {
  const input = el("input", { type: "password", autocomplete: "off", required: "" });
  const open = el("div", { class: "buttons" }, el("button", { type: "submit", class: "primary" }, "Open"));
  const form = el(
    "form",
    {},
    el("label", {}, "The experimenter's token (printed by cosight study serve)", input),
    open,
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void watch(input.value.trim());
  });
  stage.replaceChildren(page("Experimenter", error === null ? null : el("p", { role: "alert" }, error), form));
}

/** Draw the state. The place in the list of images and the focus survive. */
function draw(token: string, state: State, shown: Images): void {
  const scrolled = stage.querySelector(".images")?.scrollTop ?? 0;
  const focused = document.activeElement?.id;
  stage.replaceChildren(
    el(
      "main",
      { class: "admin" },
      header(token, state),
      counts(state),
      agreement(state.agreement),
      flagged(state.flagged),
      tally(state),
      images(token, shown),
    ),
  );
  stage.querySelector(".images")?.scrollTo(0, scrolled);
  if (focused) document.getElementById(focused)?.focus();
}

const attempt = (work: () => Promise<void>) => (): void => void work().catch((error: unknown) => say(String(error)));

function header(token: string, { study, paused }: State): HTMLElement {
  const turn = async (): Promise<void> => {
    await request("POST", paused ? "/api/admin/resume" : "/api/admin/pause", token, {});
    await look(token);
  };
  return el(
    "header",
    {},
    el("h1", {}, `${study.name} (${study.type})${paused ? ": paused" : ""}`),
    el(
      "div",
      { class: "buttons" },
      button(paused ? "Resume" : "Pause", attempt(turn), { id: "turn" }),
      button(
        "Export trials",
        attempt(() => download(token, study.name)),
        { id: "export", class: "primary" },
      ),
    ),
  );
}

async function download(token: string, name: string): Promise<void> {
  const response = await fetch("/api/admin/export", { headers: { Authorization: `Bearer ${token}` } });
  if (!response.ok) throw new Error(await reason(response));
  const address = URL.createObjectURL(await response.blob());
  el("a", { href: address, download: `${name}.parquet` }).click();
  URL.revokeObjectURL(address);
}

async function reason(response: Response): Promise<string> {
  const body = (await response.json().catch(() => ({}))) as { readonly error?: string };
  return `cannot export: ${body.error ?? `status ${response.status}`}`;
}

function counts({ simulated, answers, participants }: State): HTMLElement {
  const which = simulated ? "simulated " : "";
  const people = Object.entries(participants).map(([name, count]): [string, string] => [
    `${which}participants ${name === "released" ? "left" : name}`,
    String(count),
  ]);
  const pairs: [string, string][] = [[`${which}answers`, `${answers.given} of ${answers.wanted}`], ...people];
  const bar = el("progress", {
    max: String(Math.max(answers.wanted, 1)),
    value: String(answers.given),
    "aria-label": "answers given",
  });
  return el(
    "section",
    {},
    el("dl", {}, ...pairs.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))),
    bar,
  );
}

function agreement(rows: readonly Agreement[]): HTMLElement {
  const cells = rows.map(({ measure, observer, value, low, high, n, note }) => [
    measure,
    observer,
    number(value),
    low === null || high === null ? "" : `${number(low)} to ${number(high)}`,
    n === null ? "" : String(n),
    note ?? "",
  ]);
  return section("Agreement", table(["measure", "of", "value", "95 % interval", "n", "note"], cells), rows.length);
}

function number(value: number | null): string {
  return value === null ? "none" : value.toFixed(3);
}

function flagged(rows: State["flagged"]): HTMLElement {
  const cells = rows.map(({ participant, reasons }) => [participant, reasons.join("; ")]);
  return section("Flagged participants", table(["participant", "reasons"], cells), rows.length);
}

/** How many images have how many answers: the state of a set of any size in a few rows. */
function tally({ counts, answers }: State): HTMLElement {
  const total = counts.reduce((sum, { images }) => sum + images, 0);
  const wanted = total === 0 ? 0 : answers.wanted / total;
  const cells = counts.map((row) => [
    `${row.answers} of ${wanted}`,
    row.open === 0 ? "" : `${row.open} open`,
    String(row.images),
  ]);
  return section("Images by number of answers", table(["answers", "being shown", "images"], cells), counts.length);
}

function images(token: string, shown: Images): HTMLElement {
  const cells = shown.images.map(({ image, answers, open, wanted }) => {
    const bar = el("meter", {
      max: String(Math.max(wanted, 1)),
      value: String(Math.min(answers, wanted)),
      "aria-label": `answers to ${image}`,
    });
    return [image, bar, `${answers} of ${wanted}`, open === 0 ? "" : `${open} open`];
  });
  const list = el("div", { class: "images", tabindex: "0" }, table(["image", "", "answers", "being shown"], cells));
  const heading = "Answers per image";
  if (shown.total <= PART) return section(heading, list, shown.total);
  const last = shown.first + shown.images.length;
  const turn = (to: number): (() => void) =>
    attempt(async () => {
      first = Math.min(Math.max(to, 0), PART * Math.floor((shown.total - 1) / PART));
      await look(token);
    });
  const pages = el(
    "div",
    { class: "buttons" },
    button("Previous", turn(shown.first - PART), { id: "previous" }),
    button("Next", turn(shown.first + PART), { id: "next" }),
  );
  return section(`${heading}: ${shown.first + 1} to ${last} of ${shown.total}`, el("div", {}, pages, list), shown.total);
}

function section(heading: string, content: HTMLElement, rows: number): HTMLElement {
  return el("section", {}, el("h2", {}, heading), rows === 0 ? el("p", {}, "None.") : content);
}

function table(heads: readonly string[], rows: readonly (readonly Child[])[]): HTMLElement {
  const head = el("thead", {}, el("tr", {}, ...heads.map((name) => el("th", { scope: "col" }, name))));
  const body = rows.map((cells) =>
    el(
      "tr",
      {},
      ...cells.map((cell) =>
        el("td", typeof cell === "string" && NUMBERS.test(cell) ? { class: "number" } : {}, cell),
      ),
    ),
  );
  return el("table", {}, head, el("tbody", {}, ...body));
}

/** The token of the address, which is taken out so that it stays in no history; after a reload, the one of this tab. */
function givenToken(): string | null {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token !== null) history.replaceState(null, "", location.pathname);
  return token ?? sessionStorage.getItem(KEPT);
}

const given = givenToken();
if (given === null) askToken(null);
else void watch(given);
