/** The first page: a verdict per part, and the leaderboard. */
import { button, type Child, el } from "../dom";
import { benchmarkTable } from "./benchmark";
import { dots, type Line, measureName } from "./charts";
import { type Part, partRows, type Row } from "./data";
import { fileLinks } from "./downloads";
import { type Column, sortableTable } from "./tables";
import { address, findObserver, heading, kindGroup, link, notices, observerName, POOLS, scoreCell, select, sentence, titleOf, unfinishedNote, type View } from "./view";

interface Standing {
  readonly observer: string;
  readonly rank: Row | null;
  readonly share: Row | null;
  readonly values: ReadonlyMap<string, Row>; // by column
}

interface BoardColumn {
  readonly key: string;
  readonly measure: string;
  readonly against: string | null;
  readonly title?: string; // of a column of the benchmark's table
}

interface Board {
  readonly standings: readonly Standing[];
  readonly columns: readonly BoardColumn[];
  readonly lines: readonly Line[];
  readonly main: string | null; // column of the measure that observers are ranked by
}

/** Who stands where in a part: the rows of the group that the verdict is about. */
export function board(view: View, part: Part): Board {
  const rows = partRows(view.rows, part);
  const listed = new Set(part.leaderboard);
  const shown = rows.filter((row) => listed.has(row.id));
  const columns = new Map<string, BoardColumn>();
  const standings = new Map<string, Map<string, Row>>();
  for (const row of shown) {
    if (row.statistic !== "value") continue;
    const key = `${row.measure} ${row.against ?? ""}`;
    columns.set(key, { key, measure: row.measure, against: row.against });
    const own = standings.get(row.observer) ?? new Map<string, Row>();
    own.set(key, row);
    standings.set(row.observer, own);
  }
  const named = (statistic: string) =>
    new Map(shown.filter((row) => row.statistic === statistic).map((row) => [row.observer, row]));
  const table = part.table;
  const ids = new Map(rows.map((row) => [row.id, row]));
  table?.columns.forEach((column, index) => {
    const key = `${column.measure} ${column.title}`;
    if (!column.summary || [...columns.values()].some((other) => other.measure === column.measure)) return;
    for (const line of table.lines) {
      const row = ids.get(line.cells[index]?.[0] ?? -1);
      if (row === undefined || !standings.has(line.observer)) continue;
      columns.set(key, { key, measure: column.measure, against: null, title: column.title });
      standings.get(line.observer)!.set(key, row);
    }
  });
  const ranks = named("rank");
  const shares = named("normalised");
  // where means over seeds are ranked, the single networks behind them are not listed
  const ranked = [...standings].filter(([name]) => ranks.size === 0 || ranks.has(name) || kindGroup(view.site, name) !== "models");
  const main = [...columns.values()].find((column) => column.measure === part.measure)?.key ?? null;
  return {
    standings: ranked.map(([observer, own]) => ({
      observer, values: own, rank: ranks.get(observer) ?? null, share: shares.get(observer) ?? null,
    })),
    columns: [...columns.values()].sort((a, b) => Number(b.key === main) - Number(a.key === main)),
    lines: referenceLines(part, shown),
    main,
  };
}

/** Ceiling and chance of the measure that observers are ranked by. */
function referenceLines(part: Part, rows: readonly Row[]): Line[] {
  if (part.measure === undefined) return [];
  const lines: Line[] = [];
  const names: Readonly<Record<string, string>> = { ceiling_leave_one_out: "ceiling", ceiling_split_half: "split-half ceiling" };
  for (const [statistic, label] of Object.entries(names)) {
    const row = rows.find((one) => one.statistic === statistic && POOLS.includes(one.observer) && one.value !== null);
    if (row !== undefined && lines.length === 0) lines.push({ label: `${label} ${row.value!.toFixed(2)}`, value: row.value! });
  }
  const chance = part.chance[part.measure];
  if (chance !== undefined) lines.push({ label: "chance", value: chance });
  return lines;
}

/** Whether the leaderboard of a part is its benchmark's table: nobody is ranked by closeness to people. */
export function isTable(view: View, part: Part): boolean {
  return part.table !== undefined && board(view, part).main === null;
}

export function leaderboard(view: View, part: Part): HTMLElement {
  const found = board(view, part);
  if (part.table !== undefined && found.main === null) return benchmarkTable(view, part, part.table, partRows(view.rows, part));
  const { site } = view;
  const columns: Column<Standing>[] = [
    {
      title: "Observer",
      cell: (line) => observerName(site, line.observer),
      sort: (line) => line.observer,
    },
  ];
  if (found.standings.some((line) => line.rank !== null))
    columns.push({
      title: "Rank",
      help: "Rank of a model by closeness to people, with its interval",
      cell: (line) => (line.rank === null ? "" : scoreCell(line.rank)),
      sort: (line) => line.rank?.value ?? null,
      numeric: true,
    });
  for (const column of found.columns) {
    const facts = site.measures[column.measure];
    columns.push({
      title: column.title?.includes(measureName(view, column.measure)) ? column.title : column.title ? `${column.title} ${measureName(view, column.measure)}` : measureName(view, column.measure) + (column.against && column.against !== part.people ? ` to ${column.against}` : ""),
      help: `${facts?.summary ?? ""} ${facts?.direction === "lower" ? "Lower is closer." : ""}`.trim(),
      cell: (line) => {
        const row = line.values.get(column.key);
        return row === undefined ? "" : scoreCell(row);
      },
      sort: (line) => line.values.get(column.key)?.value ?? null,
      first: facts?.direction === "lower" ? "ascending" : "descending",
      numeric: true,
    });
  }
  if (found.standings.some((line) => line.share !== null))
    columns.push({
      title: "Share of ceiling",
      help: "The value as a share of people's agreement with each other; never clipped",
      cell: (line) => (line.share === null ? "" : scoreCell(line.share)),
      sort: (line) => line.share?.value ?? null,
      first: "descending",
      numeric: true,
    });
  const main = columns.findIndex((column) => column.title === "Rank");
  const at = main >= 0 ? main : Math.max(1, columns.findIndex((column) => column.title === measureName(view, part.measure ?? "")));
  const sorted = columns[at]?.sort === undefined ? {} : { sorted: { column: at, descending: columns[at]!.first === "descending" } };
  let kind = "all";
  const holder = el("div");
  const fill = () => {
    const lines = found.standings.filter((line) => kind === "all" || kindGroup(site, line.observer) === kind);
    holder.replaceChildren(
      sortableTable(lines, columns, {
        caption: `Leaderboard: ${part.title}`,
        text: (line) => `${line.observer} ${titleOf(site, line.observer)} ${findObserver(site, line.observer)?.observer.family ?? ""}`,
        ...sorted,
        rowClass: (line) => kindGroup(site, line.observer).replace(" ", "-"),
        most: 100,
        files: fileLinks(view, `${part.name}-leaderboard`),
      }),
    );
  };
  fill();
  const kinds = [...new Set(found.standings.map((line) => kindGroup(site, line.observer)))];
  const choice = kinds.length < 2 ? null : select("Show", [["all", "all observers"], ...kinds.map((name) => [name, name] as const)], kind, (value) => {
    kind = value;
    fill();
  });
  return el("div", {}, chart(view, part, found), choice, holder);
}

function chart(view: View, part: Part, found: Board): Child {
  if (found.main === null) return null;
  const key = found.main;
  const direction = view.site.measures[part.measure!]?.direction;
  const rows = found.standings
    .filter((line) => kindGroup(view.site, line.observer) === "models" || POOLS.includes(line.observer))
    .map((line) => line.values.get(key))
    .filter((row): row is Row => row !== undefined && row.value !== null);
  if (rows.length === 0) return null;
  const sign = direction === "lower" ? 1 : -1;
  rows.sort((a, b) => Number(!POOLS.includes(a.observer)) - Number(!POOLS.includes(b.observer)) || sign * (a.value! - b.value!));
  const most = 30;
  const against = part.people ? ` with ${part.people}` : "";
  const title = `${measureName(view, part.measure!)}${against}, interval over stimuli${part.people === "people" ? " and people" : ""}`;
  const text = rows.length > most ? `${title}; the first ${most} of ${rows.length}` : title;
  return dots(view, text, rows.slice(0, most), measureName(view, part.measure!), found.lines);
}

/** Whether simulated people take part in a part's numbers. */
export function simulatedNote(part: Part): HTMLElement | null {
  return part.simulated ? el("p", { class: "warning" }, "Simulated people take part in these numbers. They stand in for people who have not been asked.") : null;
}

export function overview(view: View, query: Readonly<Record<string, string>>): HTMLElement {
  const { site } = view;
  const chosen = site.parts.find((part) => part.name === query["part"]) ?? site.parts.find((part) => part.verdict) ?? site.parts[0]!;
  const cards = site.parts.map((part) =>
    el(
      "li",
      { class: "card" },
      el("h2", {}, link(["part", part.name], el("bdi", {}, part.title))),
      el("p", { class: "verdict" }, sentence(part.headline || part.text)),
      simulatedNote(part),
    ),
  );
  const tabs = site.parts.map((part) => {
    const one = button(part.title, () => (location.hash = address([], { part: part.name })), { "aria-pressed": String(part === chosen) });
    return one;
  });
  const total = (count: (set: (typeof site.sets)[number]) => number) => site.sets.map(count).reduce((a, b) => a + b, 0);
  const real = (kind: string) => total((set) => set.observers.filter((one) => one.kind === kind).length);
  const models = total((set) => set.observers.filter((one) => !["human", "simulated", "pool", "judge"].includes(one.kind)).length);
  const counts = [
    [real("human"), "person", "people"], [real("simulated"), "simulated person", "simulated people"], [models, "model", "models"],
    [real("judge"), "judge", "judges"], [total((set) => set.stimuli), "stimulus", "stimuli"],
  ] as const;
  return el(
    "main",
    {},
    heading(site.title),
    el("p", { class: "counts" }, counts.filter(([count]) => count > 0).map(([count, one, several]) => `${count} ${count === 1 ? one : several}`).join(", ") + "."),
    unfinishedNote(site),
    el("ul", { class: "cards" }, ...cards),
    el("h2", {}, "Leaderboard"),
    site.parts.length > 1 ? el("div", { class: "tabs", role: "group", "aria-label": "Scores to show" }, ...tabs) : null,
    el("p", {}, chosen.text),
    leaderboard(view, chosen),
    notices([...site.notices, ...chosen.notices]),
  );
}
