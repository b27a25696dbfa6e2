/** Try again, ever more slowly, and tell the participant while the connection is lost. */

import { Unreachable } from "./api";

const FIRST = 500; // ms before the second attempt
const LONGEST = 15_000; // ms between attempts at most

/** How long to wait before attempt `attempt` (the first has number 0): doubled each time, bounded. */
export function backOff(attempt: number): number {
  return attempt === 0 ? 0 : Math.min(FIRST * 2 ** (attempt - 1), LONGEST);
}

/** Resolves after `ms`, or as soon as the browser says that the network is back. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      window.removeEventListener("online", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    window.addEventListener("online", done);
  });
}

/** Calls `attempt` until the server is reached; `lost` hears whether it was. */
export async function persist<T>(attempt: () => Promise<T>, lost: (lost: boolean) => void): Promise<T> {
  for (let count = 0; ; count += 1) {
    if (count > 0) await pause(backOff(count));
    try {
      const result = await attempt();
      lost(false);
      return result;
    } catch (error) {
      lost(error instanceof Unreachable);
      if (!(error instanceof Unreachable)) throw error;
    }
  }
}
