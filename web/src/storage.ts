/** What this browser remembers: who takes part in which study, and the answers not yet acknowledged. */

/** What the local storage does not take (it is full, or cookies are off) lasts only as long as the page. */
const unkept = new Map<string, string>();

function storage(): Storage | null {
  try {
    return localStorage; // to look at it is an error where cookies are off
  } catch {
    return null;
  }
}

export function recall(key: string): string | null {
  return unkept.get(key) ?? storage()?.getItem(key) ?? null;
}

export function keep(key: string, value: string): void {
  unkept.set(key, value);
  try {
    storage()?.setItem(key, value);
    if (storage() !== null) unkept.delete(key);
  } catch (error) {
    if (!(error instanceof DOMException)) throw error; // it is full
  }
}

export function forget(key: string): void {
  unkept.delete(key);
  storage()?.removeItem(key);
}

/** The keys that begin with `prefix`. */
export function keysFrom(prefix: string): string[] {
  const all = new Set([...Object.keys(storage() ?? {}), ...unkept.keys()]);
  return [...all].filter((key) => key.startsWith(prefix));
}

/** `person` is the platform's id, so that two people at one computer are distinguished. */
export interface Ticket {
  readonly token: string;
  readonly person: string | null;
}

const TICKET = "cosight:";

/** The tickets of a study. */
export function tickets(study: string): Ticket[] {
  const own = TICKET + study;
  return keysFrom(own)
    .filter((key) => key === own || key.startsWith(`${own}:`))
    .map((key) => JSON.parse(recall(key) ?? "null") as Ticket);
}

/** A ticket that nobody has: the page chooses it, so that it can ask again when it heard no answer. */
export function newTicket(person: string | null): Ticket {
  const bytes = crypto.getRandomValues(new Uint8Array(24));
  const token = btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_");
  return { token, person };
}

export function keepTicket(study: string, ticket: Ticket): void {
  keep(keyOf(study, ticket), JSON.stringify(ticket));
}

export function dropTicket(study: string, ticket: Ticket): void {
  forget(keyOf(study, ticket));
}

function keyOf(study: string, { person }: Ticket): string {
  return TICKET + (person === null ? study : `${study}:${person}`);
}

/** The names that a platform puts into the link: Prolific's and Mechanical Turk's. */
const PLATFORM = ["PROLIFIC_PID", "STUDY_ID", "SESSION_ID", "workerId", "assignmentId", "hitId", "turkSubmitTo"];

/** The platform's values in a link, and whose id is among them. */
export function platformOf(search: string): { values: Record<string, string>; person: string | null } {
  const given = new URLSearchParams(search);
  const values = Object.fromEntries(
    PLATFORM.flatMap((name) => (given.has(name) ? [[name, given.get(name) ?? ""]] : [])),
  );
  return { values, person: values["PROLIFIC_PID"] ?? values["workerId"] ?? null };
}
