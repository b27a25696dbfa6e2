/** Requests to the server and its answers. */

import type { Texts } from "./texts";

export interface Label {
  readonly name: string;
  readonly title: string;
  readonly key: string | null; // null: there are more labels than keys
  readonly icon: string | null;
}

/** Seconds, but for `background` (a share of white), `degrees` and `distance` (cm). */
export interface Timing {
  readonly fixation: number;
  readonly exposure: number;
  readonly response: number;
  readonly prompt: number;
  readonly background: number;
  readonly degrees: number;
  readonly distance: number;
  readonly bonus: number;
}

/** What is known before there is a session. */
export interface About {
  readonly name: string;
  readonly texts: Texts;
}

export interface Study {
  readonly name: string;
  readonly type: string;
  readonly labels: readonly Label[];
  readonly texts: Texts;
  readonly timing: Timing | null;
  readonly consent: boolean;
  readonly demographics: readonly string[];
  readonly calibration: boolean;
  readonly examples: readonly { readonly image: string; readonly answer: string }[];
  readonly reasons: readonly string[];
  readonly mturk_hosts: readonly string[];
}

export interface Completion {
  readonly code: string;
  readonly url: string | null;
}

/** The questions that are left, and where somebody goes who cannot take part. */
export interface Screening {
  readonly screening: readonly string[];
  readonly screened_out: Completion | null;
}

export interface Session extends Screening {
  readonly consented: boolean;
  readonly demographics: boolean; // whether they were asked
  readonly pixels_per_cm: number | null;
  readonly answered: number;
  readonly total: number;
  readonly done: boolean;
  readonly completion: Completion | null;
}

export interface Opened {
  readonly study: Study;
  readonly session: Session;
}

export interface Images {
  readonly image?: string;
  readonly query?: string;
  readonly left?: string;
  readonly right?: string;
  readonly columns?: readonly string[];
  readonly rows?: readonly string[];
}

export interface Trial {
  readonly trial: string;
  readonly number: number;
  readonly block: number; // from 1
  readonly break: boolean;
  readonly images: Images;
  readonly title?: string | null; // curate: what the image is meant to show
}

export interface Trials {
  readonly trials: readonly Trial[];
  readonly answered: number;
  readonly total: number;
  readonly blocks: number;
}

export interface Stored {
  readonly stored: boolean;
  readonly block: { readonly number: number; readonly bonus: boolean } | null;
}

/** The server answered, and said no. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly retryAfter: number | null = null, // seconds until the same request may be granted
  ) {
    super(message);
  }
}

/** No answer came, or one that says "later": try again. */
export class Unreachable extends Error {}

const PATIENCE = 15_000; // ms until a request without an answer counts as lost

/** One request; throws Refused or Unreachable. */
export async function request<T>(
  method: "GET" | "POST",
  path: string,
  token: string | null,
  body?: unknown,
): Promise<T> {
  let response: Response;
  let content: unknown;
  try {
    response = await fetch(path, { ...options(method, token, body), signal: AbortSignal.timeout(PATIENCE) });
    content = await response.json().catch(() => null);
  } catch (error) {
    throw new Unreachable(String(error));
  }
  if (response.ok && content !== null) return content as T;
  // a success without JSON was broken off on its way, or is the log-in page of a network
  const later = response.ok || response.status >= 500 || response.status === 429;
  if (later) throw new Unreachable(`status ${response.status}`);
  const seconds = Number(response.headers.get("Retry-After"));
  throw new Refused(
    response.status,
    (content as { error?: string } | null)?.error ?? `status ${response.status}`,
    seconds > 0 ? seconds : null,
  );
}

function options(method: string, token: string | null, body: unknown): RequestInit {
  const headers: Record<string, string> = {};
  if (token !== null) headers["Authorization"] = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  return { method, headers, cache: "no-store", ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
}
