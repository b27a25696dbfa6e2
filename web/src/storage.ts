/** What this browser remembers: who takes part in which study, and the answers not yet acknowledged. */

/** `person` is the platform's id, so that two people at one computer are told apart. */
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
    .map((key) => JSON.parse(localStorage.getItem(key) ?? "null") as Ticket);
}

/** A ticket that nobody has: the page chooses it, so that it can ask again when it heard no answer. */
export function newTicket(person: string | null): Ticket {
  const bytes = crypto.getRandomValues(new Uint8Array(24));
  const token = btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_");
  return { token, person };
}

export function keepTicket(study: string, ticket: Ticket): void {
  localStorage.setItem(keyOf(study, ticket), JSON.stringify(ticket));
}

export function dropTicket(study: string, ticket: Ticket): void {
  localStorage.removeItem(keyOf(study, ticket));
}

function keyOf(study: string, { person }: Ticket): string {
  return TICKET + (person === null ? study : `${study}:${person}`);
}

/** The keys of the local storage that begin with `prefix`. */
export function keysFrom(prefix: string): string[] {
  return Object.keys(localStorage).filter((key) => key.startsWith(prefix));
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
