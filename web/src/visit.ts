/** One visit of a participant: from the link to the completion code. */

import { initJsPsych } from "jspsych";

import { Refused, request, type About, type Completion, type Opened, type Screening, type Stored, type Trials } from "./api";
import { completed, ended, Over, submission } from "./closing";
import { button, el, page, type Child } from "./dom";
import { ImageFailed, ImageStore } from "./images";
import { NOMINAL_PIXELS_PER_CM, opening, type Node } from "./opening";
import { AnswerQueue } from "./queue";
import { pause, persist } from "./retry";
import { dropTicket, keepTicket, newTicket, platformOf, tickets, type Ticket } from "./storage";
import { claim } from "./tabs";
import { BEFORE, directionOf, say, type Texts } from "./texts";
import { timeline, type Surroundings } from "./timeline";

const IN_VAIN = 5; // times that trials may be asked for again without an answer stored in between

export class Visit {
  readonly #images = new ImageStore((failed) => this.#notify("images", failed));
  readonly #troubles = new Set<string>();
  #texts: Texts = BEFORE;
  #ticket: Ticket | null = null;
  #pixelsPerCm = NOMINAL_PIXELS_PER_CM;
  #block: Stored["block"] = null;
  #inVain = 0;
  #over: Over | null = null;
  #abort: ((reason: unknown) => void) | null = null; // breaks off what jsPsych runs

  constructor(
    readonly stage: HTMLElement,
    readonly notice: HTMLElement,
  ) {}

  /** The whole visit; it ends with a page that says how it went. */
  async run(): Promise<void> {
    this.#show(page(null, el("p", {}, say(this.#texts, "loading"))));
    claim(() => this.#stop(new Over("other_tab")));
    await this.#takePart().catch((error: unknown) => this.#end(this.#over ?? error));
  }

  /** No more of this visit, whatever it is at. */
  #stop(reason: Over): void {
    this.#over = reason;
    this.#abort?.(reason);
    this.#end(reason);
  }

  async #takePart(): Promise<void> {
    const about = await this.#call<About>("GET", "/api/study");
    this.#texts = { ...BEFORE, ...about.texts };
    document.title = about.name;
    document.documentElement.lang = say(this.#texts, "language");
    document.documentElement.dir = directionOf(document.documentElement.lang);
    const found = await this.#open(about.name);
    const queue = this.#queueOf(found.study.name);
    const opened = (await this.#sendLeft(queue)) ? await this.#call<Opened>("GET", "/api/session") : found;
    this.#pixelsPerCm = opened.session.pixels_per_cm ?? NOMINAL_PIXELS_PER_CM;
    if (opened.session.screened_out !== null) throw new Over("screening_out", opened.session.screened_out.url);
    if (!opened.session.done) await this.#answer(opened, queue);
    const completion = opened.session.completion ?? (await this.#call<Completion>("POST", "/api/finish", {}));
    this.#complete(opened, completion);
  }

  /** Send the answers that an earlier visit left; whether there were any. */
  async #sendLeft(queue: AnswerQueue): Promise<boolean> {
    if (queue.isEmpty()) return false;
    await queue.flush().catch(releasedOnly);
    return true;
  }

  /** The session of a ticket that the server knows, else a new one. */
  async #open(study: string): Promise<Opened> {
    const { values, person } = platformOf(location.search);
    for (const ticket of tickets(study)) {
      const opened = person === null || person === ticket.person ? await this.#session(ticket) : null;
      if (opened !== null) return opened;
    }
    const ticket = newTicket(person);
    await this.#begin(study, ticket, values);
    const opened = await this.#session(ticket);
    if (opened === null) throw new Error("the server does not know the session that it has just begun");
    return opened;
  }

  /** The ticket is kept first: whatever becomes of the answer, whoever comes back is the same participant. */
  async #begin(study: string, ticket: Ticket, platform: object): Promise<void> {
    const simulated = new URLSearchParams(location.search).get("simulated");
    keepTicket(study, ticket);
    try {
      await this.#admitted("POST", "/api/sessions", { platform, simulated, token: ticket.token });
    } catch (error) {
      if (error instanceof Refused) dropTicket(study, ticket);
      throw error instanceof Refused && error.status === 409 ? new Over("already") : error;
    }
  }

  /** The session of a ticket, or null when the server does not know it (its database is another one now). */
  async #session(ticket: Ticket): Promise<Opened | null> {
    this.#ticket = ticket;
    try {
      return await this.#call<Opened>("GET", "/api/session");
    } catch (error) {
      this.#ticket = null;
      if (error instanceof Refused && error.status === 401) return null;
      throw error;
    }
  }

  /** The pages before the trials, then trials until the server has no more. */
  async #answer(opened: Opened, queue: AnswerQueue): Promise<void> {
    await this.#play(this.#opening(opened));
    document.documentElement.classList.toggle("grey", opened.study.timing !== null);
    colour(opened.study.timing?.background ?? 1);
    for (;;) {
      const given = await this.#admitted<Trials>("GET", "/api/trials");
      if (given.total === 0) throw new Over("unavailable");
      if (given.trials.length === 0) return;
      if (this.#inVain++ > IN_VAIN) throw new Error("trials came again and again without an answer stored");
      await this.#round(this.#surroundings(opened, queue), given, queue);
    }
  }

  /** Go through the trials. The server assigns those that were released, or cannot be shown, again. */
  async #round(around: Surroundings, given: Trials, queue: AnswerQueue): Promise<void> {
    try {
      await this.#play(timeline(around, given));
      await queue.flush();
    } catch (error) {
      if (!(error instanceof ImageFailed)) releasedOnly(error);
    }
  }

  /** jsPsych runs some nodes, unless something breaks them off. */
  async #play(nodes: readonly Node[]): Promise<void> {
    if (this.#over !== null) throw this.#over;
    if (nodes.length === 0) return;
    this.stage.replaceChildren();
    const jsPsych = initJsPsych({ display_element: this.stage });
    let reason: unknown = null;
    this.#abort = (why) => {
      reason = why;
      jsPsych.abortExperiment();
    };
    await jsPsych.run(nodes as Parameters<typeof jsPsych.run>[0]).finally(() => (this.#abort = null));
    if (reason !== null) throw reason;
  }

  #opening(opened: Opened): Node[] {
    return opening(opened, {
      consented: () => this.#call("POST", "/api/session/consent", { agreed: true }),
      declined: () => {
        // sent once, without a retry: nothing of this participant is stored
        void request<Completion>("POST", "/api/session/decline", this.#ticket!.token, {})
          .catch(() => null)
          .then((back) => this.#stop(new Over("declined", back?.url ?? null)));
      },
      screened: async (question, eligible) => {
        const { screened_out: out } = await this.#call<Screening>("POST", "/api/session/screening", { question, eligible });
        if (out !== null) this.#stop(new Over("screening_out", out.url));
      },
      demographics: (values) => this.#call("POST", "/api/session/demographics", values),
      calibrated: async (pixelsPerCm) => {
        await this.#call("POST", "/api/session/calibration", { pixels_per_cm: pixelsPerCm });
        this.#pixelsPerCm = pixelsPerCm;
      },
    });
  }

  #queueOf(study: string): AnswerQueue {
    const stored = ({ block }: Stored): void => {
      this.#inVain = 0;
      this.#block = block ?? this.#block;
    };
    return new AnswerQueue(study, {
      lost: (lost) => this.#notify("answers", lost),
      stored,
      refused: (error) => this.#abort?.(error),
    });
  }

  #surroundings({ study }: Opened, queue: AnswerQueue): Surroundings {
    const { token } = this.#ticket!;
    return {
      study,
      images: this.#images,
      pixelsPerCm: this.#pixelsPerCm,
      answered: (answer) => queue.add(token, answer),
      bonus: () =>
        queue.flush().then(
          () => this.#bonus(),
          () => null,
        ),
    };
  }

  /** The line about the bonus of the last block, where a bonus can be had. */
  #bonus(): string | null {
    return this.#block === null ? null : say(this.#texts, this.#block.bonus ? "bonus_won" : "bonus_missed");
  }

  #complete(opened: Opened, completion: Completion): void {
    document.documentElement.classList.remove("grey");
    if (document.fullscreenElement) void document.exitFullscreen();
    const form = submission(opened.study.mturk_hosts, platformOf(location.search).values, completion.code);
    this.#show(completed(this.#texts, completion, this.#bonus(), form, this.#nextPerson(opened.study.name)));
  }

  /** Without a platform the next person may sit down at the same computer. */
  #nextPerson(study: string): Child {
    const ticket = this.#ticket;
    if (ticket === null || ticket.person !== null) return null;
    const restart = (): void => {
      dropTicket(study, ticket);
      location.reload();
    };
    return el("p", {}, button(say(this.#texts, "next_person"), restart));
  }

  #end(error: unknown): void {
    document.documentElement.classList.remove("grey");
    if (error instanceof Refused && error.status === 401) return location.reload(); // the session is gone: start a new one
    this.#show(ended(this.#texts, error));
  }

  /** A call that waits, with a page that says so, while the server has no image for this participant. */
  async #admitted<T>(method: "GET" | "POST", path: string, body?: object): Promise<T> {
    for (let waits = false; ; waits = true) {
      try {
        return await this.#call<T>(method, path, body);
      } catch (error) {
        if (this.#over !== null) throw this.#over;
        if (!(error instanceof Refused && error.retryAfter !== null)) throw error;
        if (!waits) this.#show(page(null, el("p", { role: "status" }, say(this.#texts, "waiting"))));
        await pause(error.retryAfter * 1000);
      }
    }
  }

  #call<T>(method: "GET" | "POST", path: string, body?: object): Promise<T> {
    return persist(
      () => request<T>(method, path, this.#ticket?.token ?? null, body),
      (lost) => this.#notify("requests", lost),
    );
  }

  #show(content: HTMLElement): void {
    this.stage.replaceChildren(content);
  }

  /** Say that something cannot be reached, until all can be; the page goes on meanwhile. */
  #notify(what: "answers" | "requests" | "images", lost: boolean): void {
    if (lost) this.#troubles.add(what);
    else this.#troubles.delete(what);
    const text = this.#troubles.size === 1 && this.#troubles.has("images") ? "image_failed" : "connection_lost";
    this.notice.hidden = this.#troubles.size === 0;
    this.notice.textContent = this.notice.hidden ? "" : say(this.#texts, text);
  }
}

/** Passes over an answer to a trial that was given to somebody else meanwhile; throws anything else. */
function releasedOnly(error: unknown): void {
  if (!(error instanceof Refused && error.status === 410)) throw error;
}

/** The background as a share of white, and the ink that stands out more from it. */
function colour(share: number): void {
  const value = Math.round(share * 255);
  const luminance = share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4; // sRGB, WCAG 2
  const ink = 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05 ? "#fff" : "#000";
  document.documentElement.style.setProperty("--grey", `rgb(${value}, ${value}, ${value})`);
  document.documentElement.style.setProperty("--grey-ink", ink);
}
