/** Human data: who answered, how far people agree, what was left out. */
import { el } from "../dom";
import { measureName } from "./charts";
import { groupText } from "./data";
import { fileLinks } from "./downloads";
import { sortableTable } from "./tables";
import { heading, notices, observerName, scoreCell, sentence, type View } from "./view";

/** The participants who were excluded from studies, with the reasons and the rules. */
export function exclusions(view: View): HTMLElement[] {
  return view.site.method.exclusions.map((study) => {
    const kept = study.written_all_the_same && study.excluded.length > 0 ? " Their answers are in this report all the same." : "";
    const rules = Object.entries(study.rules).map(([name, value]) => `${name.replaceAll("_", " ")} ${JSON.stringify(value)}`).join(", ");
    return el(
      "div",
      {},
      el("p", {}, el("bdi", {}, study.source), `: ${study.excluded.length} of ${study.participants} participants excluded. Rules: ${rules}.${kept}`),
      el("ul", {}, ...study.excluded.map((one) => el("li", {}, el("bdi", {}, one.participant), `: ${sentence(one.reasons.join("; "))}`))),
    );
  });
}

export function people(view: View): HTMLElement {
  const { site } = view;
  const persons = site.sets.flatMap((set) => set.observers.filter((one) => one.kind === "human" || one.kind === "simulated").map((one) => ({ ...one, set: set.title })));
  const accuracy = new Map(view.rows.filter((row) => row.measure === "accuracy" && row.statistic === "value" && row.against === null && row.group === "").map((row) => [row.observer, row]));
  const listed = new Set(site.people);
  const agreement = view.rows.filter((row) => listed.has(row.id));
  const gold = site.sets.flatMap((set) => set.observers.filter((one) => one.kind === "pool" && one.name.endsWith("gold")));
  const none = persons.length === 0;
  const count = (kind: string, one: string, several: string) => {
    const number = persons.filter((person) => person.kind === kind).length;
    return number === 0 ? "" : `${number} ${number === 1 ? one : several}`;
  };
  return el(
    "main",
    {},
    heading("Human data"),
    none
      ? el("p", {}, gold.length > 0
          ? `There are no trials of single people. Models are compared with gold labels of ${gold.map((one) => `${one.answered} stimuli (${one.title})`).join(", ")}.`
          : "There are no people in this report, so nothing is compared with people. Add trials of people as a further source.")
      : el("p", {}, `${[count("human", "person", "people"), count("simulated", "simulated person", "simulated people")].filter(Boolean).join(" and ")} answered.`),
    agreement.length === 0
      ? null
      : sortableTable(
          agreement,
          [
            { title: "Measure", cell: (row) => measureName(view, row.measure), sort: (row) => row.measure },
            { title: "Who", cell: (row) => (row.against === null ? row.observer : `${row.observer} with ${row.against}`), sort: (row) => row.observer },
            { title: "Statistic", cell: (row) => row.statistic.replaceAll("_", " "), sort: (row) => row.statistic },
            { title: "Group", cell: (row) => el("bdi", {}, groupText(row.group)), sort: (row) => row.group },
            { title: "Value", cell: (row) => scoreCell(row), sort: (row) => row.value, numeric: true, first: "descending" },
            { title: "n", cell: (row) => String(row.n), sort: (row) => row.n, numeric: true },
          ],
          { caption: "Agreement and ceilings", text: (row) => `${row.measure} ${measureName(view, row.measure)} ${row.statistic} ${row.group}`, most: 60, files: fileLinks(view, "people") },
        ),
    none
      ? null
      : sortableTable(
          persons,
          [
            { title: "Participant", cell: (line) => observerName(site, line.name), sort: (line) => line.name },
            { title: "Trials", cell: (line) => String(line.trials), sort: (line) => line.trials, numeric: true },
            { title: "Answered", cell: (line) => String(line.answered), sort: (line) => line.answered, numeric: true },
            { title: "Accuracy", cell: (line) => (accuracy.has(line.name) ? scoreCell(accuracy.get(line.name)!) : ""), sort: (line) => accuracy.get(line.name)?.value ?? null, numeric: true, first: "descending" },
            { title: "Answers", cell: (line) => line.set, sort: (line) => line.set },
          ],
          { caption: "Participants", text: (line) => line.name, most: 100, files: fileLinks(view, "participants") },
        ),
    el("h2", {}, "Left out"),
    ...exclusions(view),
    notices([...site.sets.flatMap((set) => set.notices), ...site.parts.flatMap((part) => part.notices)], "Notes") ?? (site.method.exclusions.length > 0 ? null : el("p", {}, "Nothing was left out.")),
  );
}
