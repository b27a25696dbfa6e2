/** Keys and clicks as answers. */

export type Input = "mouse" | "key" | "touch";

export interface Choice {
  readonly response: unknown;
  readonly key: string | null;
  readonly button: HTMLButtonElement;
}

export interface Chosen {
  readonly response: unknown;
  readonly at: number; // ms, on the clock of animation frames
  readonly input: Input;
}

/** The key of an event as the study names it ("a", "1", "space", "arrowleft"), or null for one that is no answer. */
export function keyOf(event: KeyboardEvent): string | null {
  if (event.repeat || event.ctrlKey || event.altKey || event.metaKey) return null;
  const name = nameOf(event);
  // a button in focus is pressed by these two: its click is the answer
  const pressesButton = event.target instanceof HTMLButtonElement && (name === "space" || name === "enter");
  return pressesButton ? null : name;
}

/** What the key types; where that is no Latin letter or digit (a Greek keyboard, a French one without Shift), what is
 * printed in its place on an English keyboard. */
function nameOf({ key, code }: KeyboardEvent): string {
  if (key === " ") return "space";
  const typed = key.toLowerCase();
  if (key.length > 1 || /[a-z0-9]/.test(typed)) return typed; // "ArrowLeft" has no other name
  return /^(?:Key|Digit)(.)$/.exec(code)?.[1]?.toLowerCase() ?? typed;
}

/** How a click was made: a click without a pointer comes from the keyboard. */
export function inputOf(event: MouseEvent): Input {
  if (event.detail === 0) return "key";
  return (event as PointerEvent).pointerType === "touch" ? "touch" : "mouse";
}

/** Calls `act` with the name of each key pressed, as long as `root` is in the page. */
export function onKeys(root: HTMLElement, act: (key: string, event: KeyboardEvent) => void): void {
  const listener = (event: KeyboardEvent): void => {
    if (!root.isConnected) return document.removeEventListener("keydown", listener);
    const key = keyOf(event);
    if (key !== null) act(key, event);
  };
  document.addEventListener("keydown", listener);
}

/** The first choice that is clicked or whose key is pressed, at `from` or later. The next ones do nothing. */
export function firstOf(root: HTMLElement, choices: readonly Choice[], from: number): Promise<Chosen> {
  return new Promise((resolve) => {
    const take = (response: unknown, at: number, input: Input): void =>
      void (at >= from && resolve({ response, at, input }));
    for (const { response, button } of choices) {
      button.addEventListener("click", (event) => take(response, event.timeStamp, inputOf(event)));
    }
    onKeys(root, (key, event) => {
      const choice = choices.find((one) => one.key === key);
      if (choice === undefined) return;
      event.preventDefault(); // the space bar would scroll
      take(choice.response, event.timeStamp, "key");
    });
  });
}
