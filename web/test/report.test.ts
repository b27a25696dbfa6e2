import { describe, expect, it } from "vitest";
import { shorten } from "../src/report/charts";
import { groupPairs, groupText, likelyLabels, rowsOf, type Stimuli } from "../src/report/data";
import { inCell, selected, type State } from "../src/report/disagree";
import { csvText } from "../src/report/downloads";
import { chosen } from "../src/report/sheet";
import { parseRoute } from "../src/report/route";
import { compare, sortableTable } from "../src/report/tables";
import { address, decimals, scoreCell } from "../src/report/view";

const NAME = 'a/b?c=1&d#<script>"%';

describe("addresses", () => {
  it("bring any name back", () => {
    expect(parseRoute(address(["observer", NAME], { a: NAME, b: "" }))).toEqual({ path: ["observer", NAME], query: { a: NAME } });
  });
  it("survive a lone percent sign", () => {
    expect(parseRoute("#/observer/50%").path).toEqual(["observer", "50%"]);
  });
});

describe("rows", () => {
  const columns = {
    texts: ["m", "accuracy", "value", "", "few_trials"],
    id: [7], observer: [0], against: [-1], measure: [1], statistic: [2], note: [3], group: [3], flags: [4],
    value: [null], low: [null], high: [null], n: [3], p: [null], p_adjusted: [null],
  };
  it("are decoded", () => {
    expect(rowsOf(columns)[0]).toMatchObject({ id: 7, observer: "m", against: null, measure: "accuracy", flags: ["few_trials"] });
  });
  it("say why a number is undefined", () => {
    expect(scoreCell(rowsOf(columns)[0]!).textContent).toBe("undefined: few trials");
  });
  it("show ranks as they are", () => {
    const rank = { ...rowsOf(columns)[0]!, statistic: "rank", value: 2, low: 1, high: 3.5 };
    expect(scoreCell(rank).textContent).toBe("2 [1,\u00a03.5]");
  });
  it("have groups in words", () => {
    expect(groupText("experiment=edge;condition=*")).toBe("experiment edge, mean over condition");
    expect(groupPairs("a=x%3By")).toEqual([["a", "x;y"]]);
  });
  it("never show a negative zero", () => {
    expect(decimals(-0.0001)).toBe("0.000");
  });
});

describe("charts", () => {
  it("shorten names in the middle", () => {
    expect(shorten("resnet50-trained-on-SIN-and-IN", 24)).toBe("resnet50-traine\u2026N-and-IN");
    expect(shorten("resnet50-trained-on-SIN-and-IN", 10)).toBe("\u2026IN-and-IN");
    expect(shorten("resnet50", 20)).toBe("resnet50");
  });
});

describe("tables", () => {
  it("put missing values last in both directions", () => {
    const sorted = (descending: boolean) => [2, null, 1].sort((a, b) => compare(a, b, descending));
    expect(sorted(false)).toEqual([1, 2, null]);
    expect(sorted(true)).toEqual([2, 1, null]);
  });
  it("show names as text", () => {
    const table = sortableTable([NAME], [{ title: "x", cell: (line) => line }], { caption: "c", text: (line) => line });
    expect(table.querySelector("tbody th")!.textContent).toBe(NAME);
    expect(table.querySelector("script")).toBeNull();
  });
});

describe("disagreements", () => {
  const set = { labels: ["cat", "abstain"], stimuli: 4, experiments: ["e"], conditions: [null] } as never;
  const zeros = new Int16Array(4);
  const stimuli = { truth: zeros, experiment: zeros, condition: zeros } as never;
  const answers = (...codes: number[]) => ({ response: Int16Array.from(codes), confidence: null, abstention: null });
  const state: State = { set: 0, a: 0, b: 1, experiment: "", condition: "", truth: "", least: 0, most: 1, abstention: "", cell: "", page: 0 };
  const [a, b] = [answers(0, 1, 0, -2), answers(0, 0, -3, 0)];
  it("leave out ties and what one was not shown, and count the ties", () => {
    expect(selected(set, stimuli, a, b, state)).toEqual({ indices: [0, 1], ties: 1 });
  });
  it("filter by abstention", () => {
    expect(selected(set, stimuli, a, b, { ...state, abstention: "a" }).indices).toEqual([1]);
  });
  it("know the cells", () => {
    expect([0, 1].map((at) => inCell(stimuli, a, b, "01", at))).toEqual([false, true]);
    expect([0, 1].map((at) => inCell(stimuli, a, b, "0,1", at))).toEqual([false, true]);
  });
});

describe("downloads", () => {
  it("quote what CSV needs quoted", () => {
    expect(csvText([{ name: 'a,"b"', value: 0.5 }, { name: "c", value: null }])).toBe('name,value\n"a,""b""",0.5\nc,\n');
  });
});

describe("label distributions", () => {
  it("are unpacked without labels of no weight", () => {
    const packed = Int16Array.from([3, 9000, 1, 500, 2, 10000, 0, 0]);
    expect(likelyLabels(packed, 0, 2)).toEqual([3, 0.9, 1, 0.05]);
    expect(likelyLabels(packed, 1, 2)).toEqual([2, 1]);
  });
});

describe("contact sheets", () => {
  it("show one source in every condition", () => {
    const stimuli = { pictured: [1, 1, 1, 1, 1, 0], condition: [0, 0, 0, 1, 2, 0], source: [5, 6, 6, 6, 7, 5], series: [], level: [] } as unknown as Stimuli;
    expect([...chosen(6, stimuli)]).toEqual([[0, [1, 2]], [1, [3]], [2, [4]]]);
  });
});
