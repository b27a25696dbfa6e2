/** Only one tab is active: the one opened (or chosen) last. */

interface Claim {
  readonly made: number;
  readonly id: string;
}

const SETTLED = 1000; // ms after its own claim in which a tab may hear one that was made at the same time

function outranks(a: Claim, b: Claim): boolean {
  return a.made !== b.made ? a.made > b.made : a.id > b.id;
}

/** Claim the study for this tab; `taken` is called when a later tab claims it. Unlike a Web Lock, a channel needs no
 * secure origin, and a laptop in a lab has none. */
export function claim(taken: () => void): void {
  const channel = new BroadcastChannel("cosight");
  const mine: Claim = { made: Date.now(), id: String(Math.random()) };
  const since = performance.now();
  channel.addEventListener("message", (event: MessageEvent<Claim>) => {
    // what comes later is from a later tab, though the computer's clock was put back in between
    const crossed = performance.now() - since < SETTLED;
    if (crossed && !outranks(event.data, mine)) return channel.postMessage(mine);
    channel.close();
    taken();
  });
  channel.postMessage(mine);
}
