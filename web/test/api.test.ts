import { expect, test, vi } from "vitest";

import { Refused, request, Unreachable } from "../src/api";

function answering(body: string, status: number): void {
  vi.stubGlobal("fetch", () => Promise.resolve(new Response(body, { status })));
}

test("what the server says is handed on", async () => {
  answering('{"stored": true}', 200);
  expect(await request("GET", "/api/session", null)).toEqual({ stored: true });
});

test.each([
  ["the log-in page of a network", "<!doctype html><title>Welcome</title>", 200],
  ["an answer broken off", '{"stored": tr', 200],
  ["a proxy in trouble", "<h1>Bad gateway</h1>", 502],
  ["too many at once", '{"error": "slower"}', 429],
])("%s is tried again", async (_, body, status) => {
  answering(body, status);
  await expect(request("POST", "/api/answers", "token", {})).rejects.toBeInstanceOf(Unreachable);
});

test("a refusal says why", async () => {
  answering('{"error": "the study is paused"}', 423);
  const refused = await request("GET", "/api/trials", "token").catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(Refused);
  expect(refused).toMatchObject({ status: 423, message: "the study is paused" });
});

test.each([
  ["3", 3],
  [null, null],
])("a refusal says when to ask again: %s", async (header, seconds) => {
  const headers = header === null ? {} : { "Retry-After": header };
  vi.stubGlobal("fetch", () => Promise.resolve(new Response("{}", { status: 423, headers })));
  const refused = await request("GET", "/api/trials", "token").catch((error: unknown) => error);
  expect(refused).toMatchObject({ retryAfter: seconds });
});
