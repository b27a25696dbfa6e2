/** How the report was made: what is needed to reproduce it. */
import { el } from "../dom";
import type { RunFacts } from "./data";
import { fileLinks } from "./downloads";
import { exclusions } from "./people";
import { heading, notices, unfinishedNote, type View } from "./view";

function valueText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value) ?? "";
}

function facts(title: string, values: Readonly<Record<string, unknown>>): HTMLElement {
  const entries = Object.entries(values);
  const list = el("dl", { class: "facts" }, ...entries.flatMap(([name, value]) => [el("dt", {}, el("bdi", {}, name)), el("dd", {}, el("bdi", {}, valueText(value)))]));
  return el("div", {}, el("h3", {}, title), entries.length > 0 ? list : el("p", {}, "none"));
}

function runFacts(run: RunFacts): HTMLElement {
  if (run.problem !== undefined) return el("section", {}, el("h3", {}, el("bdi", {}, run.name)), el("p", {}, run.problem));
  const observers = (run.answered ?? []).map(([name, answered, skipped, state]) =>
    el("tr", {}, el("th", { scope: "row" }, el("bdi", {}, name)), el("td", { class: "number" }, `${answered} of ${run.stimuli ?? "?"}`), el("td", { class: "number" }, String(skipped)), el("td", {}, state)),
  );
  const sessions = (run.sessions ?? []).map((session) =>
    el("li", {}, `${session.started} to ${session.ended ?? "?"}: ${session.outcome ?? "in progress"}`,
      session.git === null ? "" : `; git commit ${session.git.commit}${session.git.changed ? ", files changed" : ""}`,
      session.versions === null ? "" : `; ${Object.entries(session.versions).map(([name, version]) => `${name} ${version}`).join(", ")}`),
  );
  return el(
    "details",
    { class: "run" },
    el("summary", {}, "Run ", el("bdi", {}, run.name), `: ${run.state ?? ""}`),
    el("pre", { tabindex: "0" }, run.command ?? ""),
    el("table", {}, el("caption", {}, "Answers"), el("thead", {}, el("tr", {}, ...["observer", "answered", "skipped", "state"].map((text) => el("th", { scope: "col" }, text)))), el("tbody", {}, ...observers)),
    el("h3", {}, "Sessions"),
    el("ul", {}, ...sessions),
    facts("Settings passed", run.passed ?? {}),
    facts("Settings defaulted", run.defaulted ?? {}),
    facts("Files of each observer (digests)", run.digests ?? {}),
    el("details", {}, el("summary", {}, "Plan"), el("pre", { tabindex: "0" }, JSON.stringify(run.plan, null, 1))),
  );
}

export function method(view: View): HTMLElement {
  const { site } = view;
  const { method: how } = site;
  const files = site.tables.map((table) =>
    el("tr", {}, el("th", { scope: "row" }, el("bdi", {}, table.title)), el("td", { class: "number" }, String(table.rows)), el("td", {}, fileLinks(view, table.name, ""))),
  );
  const sources = how.sources.map((source) =>
    el("li", {}, el("bdi", {}, source.name), source.licence === null ? "" : ` (${source.licence})`, source.digest === null ? "" : el("small", { class: "digest" }, ` sha256 ${source.digest}`)),
  );
  return el(
    "main",
    {},
    heading("Method"),
    unfinishedNote(site),
    el("h2", {}, "Command"),
    el("pre", { tabindex: "0" }, how.command),
    el("h2", {}, "Sources"),
    el("ul", {}, ...sources),
    el("h2", {}, "Downloads"),
    el("table", {}, el("caption", {}, "Every table"), el("thead", {}, el("tr", {}, ...["table", "rows", "files"].map((text) => el("th", { scope: "col" }, text)))), el("tbody", {}, ...files)),
    el("h2", {}, "Settings"),
    facts("Passed", how.passed),
    facts("Defaulted", how.defaulted),
    facts("Versions", how.versions),
    el("h2", {}, "Scores"),
    ...site.parts.map((part) => el("details", {}, el("summary", {}, el("bdi", {}, part.title), ` (${part.count} rows)`), facts("Settings", part.settings), notices(part.notices))),
    how.exclusions.length > 0 ? el("h2", {}, "Exclusions") : null,
    ...exclusions(view),
    how.runs.length > 0 ? el("h2", {}, "Runs") : null,
    ...how.runs.map(runFacts),
    notices(site.notices, "What could not be done"),
    el("h2", {}, "Citations"),
    el("p", {}, `${how.cited} works: the measures, benchmarks and data behind these numbers.`),
    el("pre", { class: "bibtex", tabindex: "0" }, how.bibtex),
    el("p", {}, el("a", { href: "licences.txt" }, "Licences of the software in these pages")),
  );
}
