import { beforeEach, expect, test, vi } from "vitest";

import { dropTicket, keepTicket, newTicket, platformOf, tickets } from "../src/storage";
import { claim } from "../src/tabs";
import { directionOf, say } from "../src/texts";

beforeEach(() => localStorage.clear());

test("two people at one computer have a ticket each", () => {
  const [none, one] = [
    { token: "t0", person: null },
    { token: "t1", person: "one" },
  ];
  keepTicket("study", none);
  keepTicket("study", one);
  keepTicket("study-2", { token: "t2", person: null });
  expect(tickets("study")).toEqual(expect.arrayContaining([none, one]));
  expect(tickets("study")).toHaveLength(2);
  dropTicket("study", none);
  expect(tickets("study")).toEqual([one]);
});

test("a new ticket is 32 plain characters, another one each time", () => {
  const [first, second] = [newTicket(null), newTicket("one")];
  expect(first.token).toMatch(/^[A-Za-z0-9_-]{32}$/);
  expect(second).toEqual({ token: expect.not.stringMatching(first.token) as string, person: "one" });
});

test("the platform's parameters, and no others", () => {
  expect(platformOf("?PROLIFIC_PID=p&STUDY_ID=s&utm=x")).toEqual({
    values: { PROLIFIC_PID: "p", STUDY_ID: "s" },
    person: "p",
  });
  expect(platformOf("?workerId=w&assignmentId=a")).toMatchObject({ person: "w" });
  expect(platformOf("")).toEqual({ values: {}, person: null });
});

test("of several tabs exactly the last is active", async () => {
  const taken = [vi.fn(), vi.fn(), vi.fn()];
  for (const [made, one] of taken.entries()) {
    vi.spyOn(Date, "now").mockReturnValueOnce(made);
    claim(one);
  }
  await vi.waitFor(() => expect(taken.map((one) => one.mock.calls.length)).toEqual([1, 1, 0]));
});

test("of two tabs opened in the same instant one is active", async () => {
  const taken = [vi.fn(), vi.fn()];
  vi.spyOn(Date, "now").mockReturnValue(7);
  taken.forEach(claim);
  await vi.waitFor(() => expect(taken.flatMap((one) => one.mock.calls)).toHaveLength(1));
});

test("a later tab is active though the clock was put back in between", async () => {
  const taken = [vi.fn(), vi.fn()];
  const clock = vi.spyOn(performance, "now").mockReturnValue(0);
  claim(taken[0]!);
  clock.mockReturnValue(60_000);
  vi.spyOn(Date, "now").mockReturnValue(Date.now() - 3_600_000);
  claim(taken[1]!);
  await vi.waitFor(() => expect(taken.map((one) => one.mock.calls.length)).toEqual([1, 0]));
});

test.each([
  ["off", () => vi.spyOn(window, "localStorage", "get").mockImplementation(denied)],
  ["full", () => vi.spyOn(Storage.prototype, "setItem").mockImplementation(denied)],
])("with the local storage %s a ticket lasts as long as the page", (_, breakIt) => {
  breakIt();
  const ticket = { token: "t", person: null };
  keepTicket("study", ticket);
  expect(tickets("study")).toEqual([ticket]);
  dropTicket("study", ticket);
  expect(tickets("study")).toEqual([]);
});

function denied(): never {
  throw new DOMException("denied");
}

test.each([
  ["ar", "rtl"],
  ["he-IL", "rtl"],
  ["en", "ltr"],
  ["arn", "ltr"], // Mapudungun begins like Arabic
])("%s is written %s", (language, direction) => expect(directionOf(language)).toBe(direction));

test("sentences are filled in; one that lacks is named", () => {
  expect(say({ progress: "{number} of {total}" }, "progress", { number: 1, total: 4 })).toBe("1 of 4");
  expect(() => say({}, "progress")).toThrow(/lack "progress"/);
});
