// Where somebody is who uses no mouse: at what has the focus, or, where that is gone, at the title of what is shown.

/** Goes to the title of the dialog that is open, or of the page; whoever listens instead of looking hears it. */
export function toTitle(): void {
  const shown = [...document.querySelectorAll("dialog[open]")].at(-1) ?? document;
  // Whoever looks stays where he is.
  shown.querySelector<HTMLElement>("h1, h2")?.focus({ preventScroll: true });
}

/** Goes to the title of a page that was opened, once that is drawn. A dialog over it has chosen a place of its own. */
export function arrive(): void {
  requestAnimationFrame(() => document.querySelector("dialog[open]") ?? toTitle());
}

/** From now on, what takes the focus away with it leaves it to the title. */
export function keepPlace(): void {
  let last: EventTarget | null = null;
  document.addEventListener("focusin", ({ target }) => (last = target));
  // A click beside everything leaves the place on purpose.
  document.addEventListener("pointerdown", () => (last = null), true);
  new MutationObserver(() => {
    if (!(last instanceof Element) || last.isConnected || document.activeElement !== document.body) return;
    last = null;
    toTitle();
  }).observe(document.body, { childList: true, subtree: true });
}
