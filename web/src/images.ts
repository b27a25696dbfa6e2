/** Images, fetched and decoded before they are shown. */

import { backOff, pause } from "./retry";

const ATTEMPTS = 6; // with the back-off about 15 s; then the trials are asked for again

/** An image that cannot be had under this address (any more). */
export class ImageFailed extends Error {}

export class ImageStore {
  readonly #images = new Map<string, Promise<HTMLImageElement>>();
  readonly #failing = new Set<string>();

  constructor(readonly lost: (lost: boolean) => void) {}

  /** Begin to fetch. A failure is heard by whoever asks for the image. */
  prefetch(urls: readonly string[]): void {
    for (const url of urls) void this.load(url).catch(() => undefined);
  }

  /** The decoded image. */
  load(url: string): Promise<HTMLImageElement> {
    const known = this.#images.get(url);
    if (known !== undefined) return known;
    const made = this.#fetch(url);
    this.#images.set(url, made);
    made.catch(() => this.#images.delete(url));
    return made;
  }

  /** Let go of images that were shown. */
  forget(urls: readonly string[]): void {
    for (const url of urls) this.#images.delete(url);
  }

  async #fetch(url: string): Promise<HTMLImageElement> {
    for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
      await pause(backOff(attempt));
      const image = new Image();
      image.src = url;
      const failed = await image.decode().then(
        () => false,
        () => true,
      );
      this.#note(url, failed);
      if (!failed) return image;
    }
    this.#note(url, false); // it is no longer tried
    throw new ImageFailed(url);
  }

  #note(url: string, failing: boolean): void {
    if (failing) this.#failing.add(url);
    else this.#failing.delete(url);
    this.lost(this.#failing.size > 0);
  }
}
