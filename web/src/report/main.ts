/** The report: one page, whose parts have addresses after the `#`. */
import { button, el } from "../dom";
import { disagree } from "./disagree";
import { load, loadAgain, loadRows, receive, type Site } from "./data";
import { method } from "./method";
import { observerPage, observersPage } from "./observers";
import { overview } from "./overview";
import { partPage } from "./part";
import { people } from "./people";
import { parseRoute, type Route } from "./route";
import { stimulusPage } from "./stimuli";
import { address, missing, type View } from "./view";

window.cosight = { add: receive };
const WATCH_MS = 3000;
const THEMES = ["auto", "light", "dark"];
const KEY = "cosight-theme";

async function pageOf(view: View, { path, query }: Route): Promise<HTMLElement> {
  const [name, ...rest] = path;
  if (name === undefined) return overview(view, query);
  if (name === "part") return partPage(view, rest[0] ?? "");
  if (name === "disagree") return disagree(view, query);
  if (name === "observers") return observersPage(view);
  if (name === "observer") return observerPage(view, rest.join("/"));
  if (name === "stimulus") return stimulusPage(view, Number(rest[0]), Number(rest[1]));
  if (name === "people") return people(view);
  if (name === "method") return method(view);
  return missing(`There is no page ${name}.`);
}

function navigation(site: Site): HTMLElement {
  const items: [string, string][] = [["Overview", address([])]];
  for (const part of site.parts) items.push([part.title, address(["part", part.name])]);
  if (site.sets.some((set) => set.observers.length > 1)) items.push(["Disagreements", address(["disagree"])]);
  items.push(["Observers", address(["observers"])], ["Human data", address(["people"])], ["Method", address(["method"])]);
  return el(
    "nav",
    { "aria-label": "Pages" },
    el("ul", {}, ...items.map(([text, href]) => el("li", {}, el("a", { href }, el("bdi", {}, text))))),
  );
}

/** Light, dark, or as the system has it; the choice is stored where the browser allows that for files. */
function themeButton(): HTMLButtonElement {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const label = el("span", {});
  let chosen = "auto";
  const show = () => {
    document.documentElement.dataset["theme"] = chosen === "auto" ? (system.matches ? "dark" : "light") : chosen;
    label.textContent = `Theme: ${chosen}`;
  };
  try {
    const stored = localStorage.getItem(KEY);
    if (stored !== null && THEMES.includes(stored)) chosen = stored;
  } catch {
    // nothing is stored
  }
  system.addEventListener("change", show);
  show();
  const next = () => {
    chosen = THEMES[(THEMES.indexOf(chosen) + 1) % THEMES.length]!;
    show();
    try {
      localStorage.setItem(KEY, chosen);
    } catch {
      // nothing is stored
    }
  };
  return button(label, next, { class: "theme" });
}

async function start(): Promise<void> {
  const site = await load<Site>("site");
  const view: View = { site, rows: await loadRows("rows") };
  document.title = `${site.title} \u2013 cosight`;
  const menu = navigation(site);
  const stage = el("div", { id: "stage" });
  const watched = site.watched ? el("span", { class: "badge", role: "status" }, "in progress: this page reloads itself") : null;
  const skip = el("a", { href: "#stage", class: "skip" }, "Skip to content");
  skip.addEventListener("click", (event) => {
    event.preventDefault();
    stage.querySelector("h1")?.focus();
  });
  document.body.replaceChildren(
    skip,
    el("header", {}, el("a", { href: "#/", class: "brand" }, "cosight"), menu, watched, themeButton()),
    stage,
  );
  let first = true;
  let shown = 0;
  const show = async () => {
    const own = (shown += 1);
    const route = parseRoute(location.hash);
    let page: HTMLElement;
    try {
      page = await pageOf(view, route);
    } catch (error) {
      page = missing(error instanceof Error ? error.message : String(error));
    }
    if (own !== shown) return; // another page was asked for in the meantime
    stage.replaceChildren(page);
    for (const item of menu.querySelectorAll("a")) {
      const here = parseRoute(item.getAttribute("href")!).path;
      const isHere = here.join("/") === route.path.slice(0, Math.max(here.length, 0)).join("/") && (here.length > 0 || route.path.length === 0);
      if (isHere) item.setAttribute("aria-current", "page");
      else item.removeAttribute("aria-current");
    }
    if (!first) {
      window.scrollTo(0, 0);
      page.querySelector("h1")?.focus();
    }
    first = false;
    document.documentElement.dataset["ready"] = String(shown);
  };
  window.addEventListener("hashchange", () => void show());
  await show();
  if (site.watched) setInterval(() => {
    loadAgain<string>("stamp").then((stamp) => stamp !== site.stamp && location.reload(), () => undefined);
  }, WATCH_MS);
}

start().catch((error: unknown) => {
  document.body.append(el("p", { role: "alert" }, error instanceof Error ? error.message : String(error)));
});
