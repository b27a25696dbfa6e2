import { expect, test, vi } from "vitest";

import { exposureOf, frameDuration, missedAround, pixelsOf, watchSight } from "../src/frames";

const FRAME = 1000 / 60;

/** Frames of a 60 Hz screen, of which some are missed. */
function frames(count: number, missed: readonly number[] = []): number[] {
  return Array.from({ length: count }, (_, index) => index * FRAME).filter((_, index) => !missed.includes(index));
}

test("the frame is the screen's, though every third is missed", () => {
  expect(
    frameDuration(
      frames(
        60,
        Array.from({ length: 20 }, (_, index) => 3 * index + 2),
      ),
    ),
  ).toBeCloseTo(FRAME, 9);
});

test("before two frames are seen, a usual screen is taken", () => {
  expect(frameDuration([])).toBeCloseTo(FRAME, 9);
  expect(frameDuration([5])).toBeCloseTo(FRAME, 9);
});

test("an exposure on the frame is not late", () => {
  const shown = exposureOf(0.5, frames(62), 30 * FRAME, 60 * FRAME);
  expect(shown).toEqual({ asked: 0.5, onset: 0.5, offset: 1, exposure: 0.5, frame: 0.016667, late: false });
});

test.each([
  ["one frame too long", [], 61, false],
  ["three frames too long", [], 63, true],
  ["three frames too short", [], 57, true],
  ["a frame missed before the onset", [29], 60, true],
  ["a frame missed after the onset", [31], 60, true],
  ["a frame missed before the offset", [59], 60, true],
  ["a frame missed after the offset", [61], 60, true],
  ["a frame missed in between", [45], 60, false],
])("%s", (_, missed, offset, late) => {
  const stamps = frames(70, missed);
  expect(exposureOf(0.5, stamps, 30 * FRAME, offset * FRAME).late).toBe(late);
});

test("nothing is missed around a regular frame", () => {
  expect(missedAround(frames(10), 5 * FRAME)).toBe(false);
});

test.each([240, 144, 120, 60])("at %i Hz no regular exposure is late, though stamps are whole ms", (rate) => {
  const stamps = Array.from({ length: 2 * rate }, (_, index) => Math.round((index * 1000) / rate));
  const [onset, offset] = [stamps[rate / 2]!, stamps[rate]!];
  expect(exposureOf(0.5, stamps, onset, offset).late).toBe(false);
});

test("a page that was out of sight for a moment is remembered, until the watch ends", () => {
  const hide = (hidden: boolean): void => {
    vi.spyOn(document, "hidden", "get").mockReturnValue(hidden);
    document.dispatchEvent(new Event("visibilitychange"));
  };
  const [during, before] = [watchSight(), watchSight()];
  expect(before()).toBe(false);
  hide(true);
  hide(false);
  expect([during(), before()]).toEqual([true, false]);
});

test("visual angle", () => {
  // 1 degree at 57.3 cm is 1 cm, the rule of thumb of vision science
  expect(pixelsOf(1, 57.3, 10)).toBeCloseTo(10, 2);
  expect(pixelsOf(5, 65, 37.795)).toBeCloseTo(214.5, 1); // 2 * 65 * tan(2.5 degrees) = 5.676 cm
});
