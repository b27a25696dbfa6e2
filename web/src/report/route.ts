/** Addresses inside the report, after the `#`. */

export interface Route {
  readonly path: readonly string[];
  readonly query: Readonly<Record<string, string>>;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // somebody typed a lone %
  }
}

/** The page that an address names. */
export function parseRoute(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const pairs = query.split("&").filter(Boolean).map((pair) => {
    const at = pair.indexOf("=");
    return at < 0 ? [decode(pair), ""] : [decode(pair.slice(0, at)), decode(pair.slice(at + 1))];
  });
  return { path: path.split("/").filter(Boolean).map(decode), query: Object.fromEntries(pairs) as Record<string, string> };
}
