// Pages by the address: `/console/NAME?id=...`. Ids stand in the query, so that a page's own part of the path is one word.
import { computed, signal } from "@preact/signals";
import { arrive } from "./focus";

const ROOT = "/console";

export interface Place {
  page: string;
  query: URLSearchParams;
}

const address = signal(location.pathname + location.search);
window.addEventListener("popstate", () => show(location.pathname + location.search));

export const place = computed<Place>(() => {
  const url = new URL(address.value, location.origin);
  const page = url.pathname.slice(ROOT.length).replaceAll("/", "");
  return { page: page === "" ? "home" : page, query: url.searchParams };
});

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
  if (replace) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  if (show(to) && !replace) window.scrollTo(0, 0);
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
