/** Observers: the list, and one page each. */
import { el } from "../dom";
import { measureName } from "./charts";
import { groupText, loadRows, type Row } from "./data";
import { fileLinks } from "./downloads";
import { sortableTable } from "./tables";
import { badge, findObserver, heading, link, missing, observerName, POOLS, scoreCell, type View } from "./view";

export function observersPage(view: View): HTMLElement {
  const lines = view.site.sets.flatMap((set, index) => set.observers.filter((one) => one.kind !== "pool").map((one) => ({ ...one, set: set.title, index })));
  const several = view.site.sets.length > 1;
  const table = sortableTable(
    lines,
    [
      { title: "Observer", cell: (line) => observerName(view.site, line.name), sort: (line) => line.name },
      { title: "Kind", cell: (line) => line.kind, sort: (line) => line.kind },
      { title: "Family", cell: (line) => el("bdi", {}, line.family ?? line.architecture ?? ""), sort: (line) => line.family ?? line.architecture ?? null },
      { title: "Trials", cell: (line) => el("span", { "data-count": "trials" }, String(line.trials)), sort: (line) => line.trials, numeric: true, first: "descending" },
      { title: "Answered", cell: (line) => el("span", { "data-count": "answered" }, String(line.answered)), sort: (line) => line.answered, numeric: true, first: "descending" },
      ...(several ? [{ title: "Answers", cell: (line: (typeof lines)[number]) => line.set, sort: (line: (typeof lines)[number]) => line.set }] : []),
    ],
    { caption: `${lines.length} observers`, text: (line) => `${line.name} ${line.kind} ${line.family ?? ""}`, most: 200, files: fileLinks(view, "observers") },
  );
  return el("main", {}, heading("Observers"), table);
}

export async function observerPage(view: View, name: string): Promise<HTMLElement> {
  const found = findObserver(view.site, name);
  const own = view.rows.filter((row) => row.observer === name && !row.flags.includes("sweep"));
  if (found === null && own.length === 0) return missing(`No observer is called ${name}.`);
  const facts = found?.observer;
  const pairs = await loadRows("pairs");
  const others = new Map<string, Map<string, Row>>();
  for (const row of pairs) {
    if (row.statistic !== "value" || (row.observer !== name && row.against !== name)) continue;
    const other = row.observer === name ? row.against! : row.observer;
    const values = others.get(`${other}\n${row.group}`) ?? new Map<string, Row>();
    values.set(row.measure, row);
    others.set(`${other}\n${row.group}`, values);
  }
  const measures = [...new Set([...others.values()].flatMap((values) => [...values.keys()]))];
  const neighbours = [...others].map(([key, values]) => ({ other: key.split("\n")[0]!, group: key.split("\n")[1]!, values }));
  const partOf = (row: Row) => view.site.parts.find((part) => row.id >= part.first && row.id < part.first + part.count)?.title ?? "";
  const definition: [string, string][] = [];
  if (facts !== undefined) {
    definition.push(["kind", facts.kind], ["trials", String(facts.trials)], ["answered", String(facts.answered)]);
    for (const key of ["family", "architecture", "seed", "function"] as const) if (facts[key] !== null && facts[key] !== undefined) definition.push([key === "function" ? "abstention function" : key, String(facts[key])]);
  }
  const pool = found === null ? undefined : view.site.sets[found.set]!.observers.find((one) => one.kind === "pool");
  return el(
    "main",
    {},
    heading(facts?.title ?? name),
    badge(facts?.kind ?? ""),
    el("dl", { class: "facts" }, ...definition.flatMap(([term, text]) => [el("dt", {}, term), el("dd", {}, el("bdi", {}, text))])),
    found !== null && pool !== undefined && facts!.kind !== "pool"
      ? el("p", {}, link(["disagree"], `Where does it disagree with ${pool.title}?`, { set: String(found.set), a: name, b: pool.name }))
      : null,
    sortableTable(
      own,
      [
        { title: "Measure", cell: (row) => measureName(view, row.measure), sort: (row) => row.measure },
        { title: "Statistic", cell: (row) => row.statistic.replaceAll("_", " "), sort: (row) => row.statistic },
        { title: "With", cell: (row) => (row.against === null ? "" : el("bdi", {}, row.against)), sort: (row) => row.against },
        { title: "Group", cell: (row) => el("bdi", {}, groupText(row.group)), sort: (row) => row.group },
        { title: "Value", cell: (row) => scoreCell(row), sort: (row) => row.value, numeric: true, first: "descending" },
        { title: "n", cell: (row) => String(row.n), sort: (row) => row.n, numeric: true },
        { title: "Part", cell: (row) => partOf(row), sort: (row) => partOf(row) },
      ],
      { caption: "Scores of this observer", text: (row) => `${row.measure} ${measureName(view, row.measure)} ${row.statistic} ${row.group} ${row.against ?? ""} ${partOf(row)}`, most: 60 },
    ),
    neighbours.length === 0
      ? null
      : sortableTable(
          neighbours,
          [
            { title: "Other observer", cell: (line) => observerName(view.site, line.other), sort: (line) => line.other },
            { title: "Group", cell: (line) => el("bdi", {}, groupText(line.group)), sort: (line) => line.group },
            ...measures.map((measure) => ({
              title: measureName(view, measure),
              cell: (line: (typeof neighbours)[number]) => (line.values.has(measure) ? scoreCell(line.values.get(measure)!) : ""),
              sort: (line: (typeof neighbours)[number]) => line.values.get(measure)?.value ?? null,
              numeric: true,
              first: "descending" as const,
            })),
          ],
          { caption: "Compared with each other observer", text: (line) => line.other, sorted: { column: 2, descending: true }, most: 40 },
        ),
    POOLS.includes(name) ? el("p", { class: "small" }, "These rows are about several observers together.") : null,
  );
}
