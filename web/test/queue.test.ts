import { beforeEach, expect, test, vi } from "vitest";

import { Refused, Unreachable, type Stored } from "../src/api";
import { AnswerQueue, type Answer } from "../src/queue";
import { backOff } from "../src/retry";

const STORED: Stored = { stored: true, block: null };

function answer(trial: string, response = "cat"): Answer {
  return { trial, response, rt: 1, shown: null, input: "key" };
}

function queueWith(send: (answer: Answer, token: string) => Promise<Stored>, study = "study") {
  const events = { lost: vi.fn(), stored: vi.fn(), refused: vi.fn() };
  return { queue: new AnswerQueue(study, events, send), events };
}

beforeEach(() => localStorage.clear());

test("answers go out one after the other, oldest first", async () => {
  const sent: string[] = [];
  let open = 0;
  const { queue } = queueWith(async ({ trial }) => {
    expect((open += 1)).toBe(1);
    await Promise.resolve();
    open -= 1;
    sent.push(trial);
    return STORED;
  });
  for (const [made, trial] of ["c", "a", "b"].entries()) {
    vi.spyOn(Date, "now").mockReturnValue(made);
    queue.add("token", answer(trial));
  }
  await queue.flush();
  expect(sent).toEqual(["c", "a", "b"]);
  expect(queue.isEmpty()).toBe(true);
});

test("the first answer to a trial stays", async () => {
  const sent: unknown[] = [];
  const { queue } = queueWith(async ({ response }) => {
    sent.push(response);
    return STORED;
  });
  queue.add("token", answer("a", "cat"));
  queue.add("token", answer("a", "dog"));
  await queue.flush();
  expect(sent).toEqual(["cat"]);
});

test("an answer outlives the page that made it, and keeps its own token", async () => {
  const lost = queueWith(() => new Promise(() => undefined));
  lost.queue.add("first person's", answer("a"));
  const sent: string[] = [];
  const next = queueWith(async ({ trial }, token) => {
    sent.push(`${trial} ${token}`);
    return STORED;
  });
  await next.queue.flush();
  expect(sent).toEqual(["a first person's"]);
});

test("another study's answers are left alone", () => {
  queueWith(() => new Promise(() => undefined), "one").queue.add("token", answer("a"));
  expect(queueWith(async () => STORED, "two").queue.isEmpty()).toBe(true);
  expect(queueWith(async () => STORED, "one").queue.isEmpty()).toBe(false);
});

test("a lost connection is told, and tried again until it is back", async () => {
  vi.useFakeTimers();
  const send = vi
    .fn()
    .mockRejectedValueOnce(new Unreachable())
    .mockRejectedValueOnce(new Unreachable())
    .mockResolvedValue(STORED);
  const { queue, events } = queueWith(send);
  queue.add("token", answer("a"));
  const done = queue.flush();
  await vi.runAllTimersAsync();
  await done;
  vi.useRealTimers();
  expect(send).toHaveBeenCalledTimes(3);
  expect(events.lost.mock.calls).toEqual([[true], [true], [false]]);
  expect(events.stored).toHaveBeenCalledExactlyOnceWith(STORED);
});

test.each([
  [410, true], // released: somebody else has the trial
  [401, true], // the session is gone
  [423, false], // paused: wanted later
])("status %i is told, and the answer is dropped: %s", async (status, dropped) => {
  const { queue, events } = queueWith(() => Promise.reject(new Refused(status, "no")));
  queue.add("token", answer("a"));
  await expect(queue.flush()).rejects.toThrow("no");
  await vi.waitFor(() => expect(events.refused).toHaveBeenCalled());
  expect(queue.isEmpty()).toBe(dropped);
});

test("waiting grows and is bounded", () => {
  expect([0, 1, 2, 3, 20].map(backOff)).toEqual([0, 500, 1000, 2000, 15_000]);
});
