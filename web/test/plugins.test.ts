import { initJsPsych } from "jspsych";
import { expect, test } from "vitest";

import type { Label } from "../src/api";
import { ClassifyPlugin } from "../src/plugins/classify";
import { ClusterPlugin } from "../src/plugins/cluster";
import { CuratePlugin } from "../src/plugins/curate";
import { sideOf, TimedPlugin } from "../src/plugins/timed";
import { TwoAlternativePlugin } from "../src/plugins/two-alternative";

const texts = new Proxy({}, { get: (_, key) => (typeof key === "string" ? `<${key}>` : undefined) });
const label = (name: string, key: string): Label => ({ name, title: name, key, icon: null });
const labels = [label("cat", "1"), label("dog", "2"), label("abstain", "space")];
const timing = {
  fixation: 0.02,
  exposure: 0.04,
  response: 2,
  prompt: 0.1,
  background: 0.5,
  degrees: 5,
  distance: 65,
  bonus: 0,
};
const common = {
  texts,
  number: 1,
  total: 2,
  load: () => Promise.resolve(Object.assign(new Image(), { decode: () => Promise.resolve() })),
};

// every trial type: what it needs beside the common parameters, and an answer to be given
const TYPES: [string, object, unknown][] = [
  ["classify", { type: ClassifyPlugin, image: "/a", labels }, "dog"],
  ["timed", { type: TimedPlugin, image: "/a", labels, timing, pixelsPerCm: 38 }, "abstain"],
  ["two-alternative", { type: TwoAlternativePlugin, query: "/q", left: "/l", right: "/r" }, "right"],
  ["cluster", { type: ClusterPlugin, columns: ["/1", "/2", "/3"], rows: ["/4", "/5"] }, [2, 0]],
  ["curate", { type: CuratePlugin, image: "/a", reasons: ["blurred", "empty"] }, { keep: false, reason: "empty" }],
];

async function simulated(node: object, mode: "data-only" | "visual", data: object): Promise<Record<string, unknown>> {
  document.body.replaceChildren();
  const jsPsych = initJsPsych({ display_element: document.body.appendChild(document.createElement("div")) });
  await jsPsych.simulate([{ ...common, ...node, simulation_options: { data } }] as never, mode);
  return jsPsych.data.get().values()[0] as Record<string, unknown>;
}

test.each(TYPES)("%s records what it declares", async (name, node, response) => {
  const data = await simulated(node, "data-only", { response, rt: 0.3 });
  const { info } = (node as { type: { info: { name: string; data: object } } }).type;
  expect(info.name).toBe(name);
  for (const recorded of Object.keys(info.data)) expect(data).toHaveProperty(recorded);
});

test.each(TYPES)("%s: a simulated click on the page gives that answer", async (_, node, response) => {
  const data = await simulated(node, "visual", { response, rt: 0.01 });
  expect(data["response"]).toEqual(response);
  expect(data["rt"]).toBeGreaterThan(0);
});

test("timed: no answer in time is null, with the measured exposure", async () => {
  const quick = { ...timing, response: 0.05, prompt: 0.02 };
  const data = await simulated({ ...TYPES[1]![1], timing: quick }, "visual", { response: "nobody's", rt: 0.01 });
  expect(data).toMatchObject({ response: null, rt: null, shown: { asked: 0.04 } });
});

test("sixteen classes make four by four", () => {
  expect(sideOf(Array.from({ length: 16 }, (_, index) => label(String(index), String(index))))).toBe(4);
  expect(sideOf(labels)).toBe(2);
});
