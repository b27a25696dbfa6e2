import { expect, test, vi } from "vitest";

import { ImageFailed, ImageStore } from "../src/images";

/** Images of which those called "bad..." never come. */
function decoding(this: HTMLImageElement): Promise<void> {
  return this.src.includes("bad") ? Promise.reject(new Error("broken")) : Promise.resolve();
}

test("trouble is told as long as an image is tried in vain, and no longer", async () => {
  vi.useFakeTimers();
  HTMLImageElement.prototype.decode = decoding; // jsdom has none
  const lost = vi.fn();
  const images = new ImageStore(lost);
  const bad = images.load("/images/bad").catch((error: unknown) => error);
  await vi.advanceTimersByTimeAsync(600);
  await Promise.all([images.load("/images/good"), vi.advanceTimersByTimeAsync(0)]);
  expect(lost).toHaveBeenLastCalledWith(true); // the other one is still not there
  await vi.runAllTimersAsync();
  vi.useRealTimers();
  expect(await bad).toBeInstanceOf(ImageFailed);
  expect(lost).toHaveBeenLastCalledWith(false);
});
