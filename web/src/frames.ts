/** Time on animation frames: a change made in a frame's callback is painted in that frame. In ms, but for `Shown`. */

/** What was asked and what was measured, in seconds; `onset` and `offset` count from the opening of the page. */
export interface Shown {
  readonly asked: number;
  readonly onset: number;
  readonly offset: number;
  readonly exposure: number;
  readonly frame: number;
  readonly late: boolean;
  readonly windowed: boolean;
}

const USUAL_FRAME = 1000 / 60; // until two frames have been seen
const MISSED = 1.5; // an interval of more frames than this holds a frame that was not painted
const TOLERATED = 2; // frames by which the exposure may differ from the asked one

/** The screen's frame: the lower quartile of the intervals, because missed frames only lengthen them. */
export function frameDuration(stamps: readonly number[]): number {
  const gaps = stamps.slice(1).map((stamp, index) => stamp - (stamps[index] ?? stamp));
  return gaps.sort((a, b) => a - b)[Math.floor((gaps.length - 1) / 4)] ?? USUAL_FRAME;
}

/** Whether the interval before or after the frame at `stamp` is too long: nobody knows when that frame was seen. */
export function missedAround(stamps: readonly number[], stamp: number): boolean {
  const longest = MISSED * frameDuration(stamps);
  const place = stamps.indexOf(stamp);
  const before = stamp - (stamps[place - 1] ?? stamp);
  const after = (stamps[place + 1] ?? stamp) - stamp;
  return before > longest || after > longest;
}

/** The times of one exposure, from the frames before, during and one after it. */
export function exposureOf(
  asked: number,
  stamps: readonly number[],
  onset: number,
  offset: number,
): Omit<Shown, "windowed"> {
  const frame = frameDuration(stamps);
  const wrong = Math.abs(offset - onset - asked * 1000) > TOLERATED * frame;
  const late = wrong || missedAround(stamps, onset) || missedAround(stamps, offset);
  const [onsetS, offsetS, exposureS, frameS] = [onset, offset, offset - onset, frame].map(
    (ms) => Math.round(ms * 1000) / 1e6,
  );
  return { asked, onset: onsetS!, offset: offsetS!, exposure: exposureS!, frame: frameS!, late };
}

/** Starts watching. The function it returns ends the watch and returns whether `test` held at any time, by `event`. */
function watch(event: string, test: () => boolean): () => boolean {
  let held = test();
  const look = (): void => void (held ||= test());
  document.addEventListener(event, look);
  return () => {
    document.removeEventListener(event, look);
    return held;
  };
}

/** Whether the page was out of sight at any time: no frame is painted then, so that nobody knows what was seen. */
export function watchSight(): () => boolean {
  return watch("visibilitychange", () => document.hidden);
}

/** Whether the page left the full screen at any time, or never was on it. */
export function watchWindow(): () => boolean {
  return watch("fullscreenchange", () => document.fullscreenElement === null);
}

/** The width in pixels of something that fills `degrees` of the visual field at `distance` cm. */
export function pixelsOf(degrees: number, distance: number, pixelsPerCm: number): number {
  return 2 * distance * Math.tan((degrees / 2) * (Math.PI / 180)) * pixelsPerCm;
}

/** The running frames of one trial. */
export class FrameClock {
  readonly stamps: number[] = [];

  /** The time of the next frame; what follows the await is painted in it. */
  next(): Promise<number> {
    return new Promise((resolve) =>
      requestAnimationFrame((stamp) => {
        this.stamps.push(stamp);
        resolve(stamp);
      }),
    );
  }

  /** The frame nearest to `seconds` after `start`. */
  async until(start: number, seconds: number): Promise<number> {
    let stamp = await this.next();
    while (stamp < start + seconds * 1000 - frameDuration(this.stamps) / 2) stamp = await this.next();
    return stamp;
  }
}
