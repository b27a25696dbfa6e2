/** Answers wait in the local storage until the server has acknowledged them. */

import { Refused, request, type Stored } from "./api";
import { persist } from "./retry";
import { forget, keep, keysFrom, recall } from "./storage";

export interface Answer {
  readonly trial: string;
  readonly response: unknown;
  readonly rt: number | null;
  readonly shown: object | null;
  readonly input: string | null;
}

interface Waiting {
  readonly token: string;
  readonly made: number;
  readonly answer: Answer;
}

/** What the rest of the page wants to know. */
export interface QueueEvents {
  readonly lost: (lost: boolean) => void;
  readonly stored: (result: Stored) => void;
  readonly refused: (error: unknown) => void;
}

/** Sends answers one after the other, oldest first. Each has a key of its own: two tabs cannot overwrite each other. */
export class AnswerQueue {
  readonly #prefix: string;
  #sending: Promise<void> | null = null;

  constructor(
    study: string,
    readonly events: QueueEvents,
    readonly send: (answer: Answer, token: string) => Promise<Stored> = (answer, token) =>
      request("POST", "/api/answers", token, answer),
  ) {
    this.#prefix = `cosight-answer:${study}:`;
  }

  /** Keep an answer, and begin to send. The first answer to a trial stays. */
  add(token: string, answer: Answer): void {
    const key = this.#prefix + answer.trial;
    if (recall(key) === null) keep(key, JSON.stringify({ token, made: Date.now(), answer } satisfies Waiting));
    void this.flush().catch(this.events.refused);
  }

  isEmpty(): boolean {
    return this.#oldest() === null;
  }

  /** Resolves when nothing waits; rejects with what the server refused. */
  flush(): Promise<void> {
    this.#sending ??= this.#drain().finally(() => {
      this.#sending = null;
    });
    return this.#sending;
  }

  async #drain(): Promise<void> {
    for (let next = this.#oldest(); next !== null; next = this.#oldest()) await this.#deliver(next.key, next.waiting);
  }

  async #deliver(key: string, { token, answer }: Waiting): Promise<void> {
    try {
      const result = await persist(() => this.send(answer, token), this.events.lost);
      forget(key);
      this.events.stored(result);
    } catch (error) {
      // paused: the answer is wanted later; anything else: the server will never take it
      if (!(error instanceof Refused && error.status === 423)) forget(key);
      throw error;
    }
  }

  #oldest(): { key: string; waiting: Waiting } | null {
    const all = keysFrom(this.#prefix).map((key) => ({
      key,
      waiting: JSON.parse(recall(key) ?? "null") as Waiting,
    }));
    return all.sort((a, b) => a.waiting.made - b.waiting.made)[0] ?? null;
  }
}
