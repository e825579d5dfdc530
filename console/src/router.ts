// Pages by the address: `/console/NAME?id=...`. Ids stand in the query, so that a page's own part of the path is one word.
import { computed, signal } from "@preact/signals";
import { arrive } from "./focus";

const ROOT = "/console";

export interface Place {
  page: string;
  query: URLSearchParams;
}

const address = signal(location.pathname + location.search);
/** The way back is under way, which a browser takes in its own time. */
let isLeaving = false;
window.addEventListener("popstate", () => {
  isLeaving = false;
  show(location.pathname + location.search);
});

function placeOf(to: string): Place {
  const url = new URL(to, location.origin);
  const page = url.pathname.slice(ROOT.length).replaceAll("/", "");
  return { page: page === "" ? "home" : page, query: url.searchParams };
}

export const place = computed<Place>(() => placeOf(address.value));

export function href(page: string, query: Record<string, string | undefined | null> = {}): string {
  const given = Object.entries(query).filter((entry): entry is [string, string] => !!entry[1]);
  const search = given.length > 0 ? `?${new URLSearchParams(given)}` : "";
  return (page === "home" ? ROOT : `${ROOT}/${page}`) + search;
}

/** What a place is about, however it is filtered or sorted. */
const subject = ({ page, query }: Place) => [page, ...["id", "tab", "chat"].map((name) => query.get(name))].join(" ");

/** Says whether it is about something else than before. Whoever filters a list stays at the filter. */
function show(to: string): boolean {
  const before = subject(place.value);
  address.value = to;
  const isOther = subject(place.value) !== before;
  if (isOther) arrive();
  return isOther;
}

export function go(to: string, replace = false): void {
  if (to === address.value) return;
  if (replace) history.replaceState(history.state, "", to);
  else history.pushState({ before: address.value }, "", to);
  if (show(to) && !replace) window.scrollTo(0, 0);
}

/** Leaves a dialog that has an address for the page below it: by the way back, where that leads to this page, as another entry of it
 * would stay in the history else. */
export function leave(to: string): void {
  // Whoever closes it twice goes back once.
  if (isLeaving) return;
  const before: unknown = history.state?.before;
  isLeaving = typeof before === "string" && placeOf(before).page === placeOf(to).page;
  if (isLeaving) history.back();
  else go(to, true);
}

/** Follows links within the console without loading a page. */
export function follow(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = (event.target as Element | null)?.closest?.("a[href]");
  if (!(link instanceof HTMLAnchorElement) || link.target || link.hasAttribute("download")) return;
  const path = link.pathname;
  if (link.origin !== location.origin || (path !== ROOT && !path.startsWith(`${ROOT}/`)) || path.startsWith(`${ROOT}/assets/`)) return;
  event.preventDefault();
  go(path + link.search);
  arrive();
}
