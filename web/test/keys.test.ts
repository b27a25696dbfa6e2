import { beforeEach, expect, test } from "vitest";

import { firstOf, inputOf, keyOf, type Choice } from "../src/keys";

function press(key: string, options: KeyboardEventInit = {}, target: EventTarget = document.body): void {
  target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...options }));
}

function screen(): { root: HTMLElement; choices: Choice[] } {
  const root = document.createElement("main");
  const choices = [
    ["cat", "1"],
    ["dog", "a"],
    ["abstain", "space"],
    ["rest", null],
  ].map(([response, key]) => {
    const button = document.createElement("button");
    root.append(button);
    return { response, key: key ?? null, button };
  });
  document.body.append(root);
  return { root, choices };
}

beforeEach(() => document.body.replaceChildren());

test.each([
  [{ key: "A" }, "a"],
  [{ key: " " }, "space"],
  [{ key: "ArrowLeft" }, "arrowleft"],
  [{ key: "&", code: "Digit1" }, "1"], // French, without Shift
  [{ key: "a", code: "KeyQ" }, "a"], // French: what is printed on the key counts
  [{ key: "\u03b1", code: "KeyA" }, "a"], // Greek
  [{ key: "Enter", code: "NumpadEnter" }, "enter"],
  [{ key: "a", repeat: true }, null], // held down
  [{ key: "r", ctrlKey: true }, null], // the browser's own
])("%o is %s", (init, name) => {
  expect(keyOf(new KeyboardEvent("keydown", init))).toBe(name);
});

test("a click says what it was made with", () => {
  expect(inputOf(new MouseEvent("click", { detail: 0 }))).toBe("key");
  expect(inputOf(new MouseEvent("click", { detail: 1 }))).toBe("mouse");
  expect(inputOf(Object.assign(new MouseEvent("click", { detail: 1 }), { pointerType: "touch" }))).toBe("touch");
});

test("the first of several answers counts", async () => {
  const { root, choices } = screen();
  const chosen = firstOf(root, choices, 0);
  press("x");
  press("A");
  press("1");
  choices[0]!.button.click();
  expect(await chosen).toMatchObject({ response: "dog", input: "key" });
});

test("the space bar abstains, but presses a button that has the focus", async () => {
  const { root, choices } = screen();
  const chosen = firstOf(root, choices, 0);
  press(" ", {}, choices[0]!.button); // the browser makes a click of it
  choices[0]!.button.click();
  expect(await chosen).toMatchObject({ response: "cat" });
  const again = firstOf(root, choices, 0);
  press(" ");
  expect(await again).toMatchObject({ response: "abstain" });
});

test("what was pressed before the trial was painted is no answer", async () => {
  const { root, choices } = screen();
  const later = performance.now() + 1e6;
  const chosen = Promise.race([firstOf(root, choices, later), Promise.resolve("nothing")]);
  press("1");
  expect(await chosen).toBe("nothing");
});

test("a trial that is gone hears nothing", async () => {
  const { root, choices } = screen();
  const chosen = Promise.race([firstOf(root, choices, 0), Promise.resolve("nothing")]);
  root.remove();
  press("1");
  expect(await chosen).toBe("nothing");
});
