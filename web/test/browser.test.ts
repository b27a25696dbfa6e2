import { beforeEach, expect, test, vi } from "vitest";

import { dropTicket, keepTicket, newTicket, platformOf, tickets } from "../src/storage";
import { claim } from "../src/tabs";
import { say } from "../src/texts";

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

test("sentences are filled in; one that lacks is named", () => {
  expect(say({ progress: "{number} of {total}" }, "progress", { number: 1, total: 4 })).toBe("1 of 4");
  expect(() => say({}, "progress")).toThrow(/lack "progress"/);
});
