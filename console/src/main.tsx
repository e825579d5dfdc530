// The console: signs in, and shows the page of the address within its frame.
import { render } from "preact";
import { useEffect, useErrorBoundary, useLayoutEffect, useRef, useState } from "preact/hooks";
import { type ComponentChildren, type ComponentType } from "preact";
import { Refused, door, get, reachable } from "./api";
import { keepPlace } from "./focus";
import { begin as beginLive, state } from "./live";
import { ClockSwitch, CopyByHand, Skeleton, Theirs, Tip, Toast, Word, accountChanges, announcement, byHand, nameWindow, plain, say, useLoad, zone } from "./parts";
import { follow, href, place } from "./router";
import { begin, choosing, ended, signOut, who } from "./session";
import { Search } from "./search";
import { SignIn } from "./pages/sign-in";
import type { M } from "./types";

/** By the word of their address, in the order in which they are listed; those without a label are reached from others. */
export type Pages = Record<string, { label?: string; page: ComponentType }>;

let PAGES: Pages = {};

const THEMES = ["auto", "light", "dark"] as const;
type Theme = (typeof THEMES)[number];
const THEME = "gateway-theme";

function storedTheme(): Theme {
  const stored = localStorage.getItem(THEME) as Theme | null;
  return stored && THEMES.includes(stored) ? stored : "auto";
}

function ThemeSwitch() {
  const [theme, set] = useState(storedTheme);
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
    localStorage.setItem(THEME, theme);
  }, [theme]);
  const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]!;
  return (
    <button type="button" class="quiet" onClick={() => set(next)} title={`Theme: ${theme}; change to ${next}`}>
      <span aria-hidden="true">{theme === "dark" ? "☾" : theme === "light" ? "☀" : "◐"}</span>
      <span class="hidden">Theme: {theme}</span>
    </button>
  );
}

const LIVE: Record<string, string> = {
  on: "Live updates are on.",
  connecting: "Connecting to live updates.",
  full: "Live updates are off: ten streams are open.",
  off: "Live updates are off.",
};

function LiveDot() {
  return (
    <Word class={`live is-${state.value}`} about={LIVE[state.value]!}>
      <span class="dot" aria-hidden="true" />
      <span class="hidden">{LIVE[state.value]}</span>
    </Word>
  );
}

function Customer() {
  const account = useLoad((signal) => get<M["Account"]>("/v1/account", {}, signal), [accountChanges.value]);
  const timezone = account.data?.timezone;
  useEffect(() => void (zone.value = timezone ?? "UTC"), [timezone]);
  return (
    <strong class="customer">
      <Theirs text={account.data?.name} />
    </strong>
  );
}

async function leave(): Promise<void> {
  try {
    await signOut();
  } catch (error) {
    say(`You are still signed in: ${error instanceof Refused ? error.message : String(error)}. Try again.`);
  }
}

/** Keeps what breaks in a page within it. */
function Bounded({ children }: { children: ComponentChildren }) {
  const [error, reset] = useErrorBoundary();
  const at = place.value;
  useEffect(() => {
    if (error) reset();
  }, [at]);
  if (!error) return <>{children}</>;
  return (
    <div class="failure" role="alert">
      <h1 tabIndex={-1}>Something went wrong on this page</h1>
      <p>{plain(String(error))}</p>
      <button type="button" onClick={reset}>
        Try again
      </button>{" "}
      <button type="button" class="quiet" onClick={() => location.reload()}>
        Reload the console
      </button>
    </div>
  );
}

function Frame() {
  const [open, setOpen] = useState(false);
  const [finds, setFinds] = useState(false);
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      setFinds(true);
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, []);
  const { page, query } = place.value;
  const shown = PAGES[page];
  const address = `${page}?${query}`;
  useEffect(() => setOpen(false), [address]);
  // Until the page has a title of its own, which names what it shows.
  useLayoutEffect(() => nameWindow(shown?.label ?? "Gateway"), [page]);
  const Page = shown?.page;
  return (
    <div
      class={open ? "frame is-open" : "frame"}
      onClick={follow}
      onKeyDown={(event) => {
        // A dialog over the list of pages is closed first.
        if (event.key !== "Escape" || !open || finds) return;
        setOpen(false);
        document.querySelector<HTMLElement>(".drawer")?.focus();
      }}
    >
      <a
        class="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          document.getElementById("main")?.focus();
        }}
      >
        Skip to content
      </a>
      <header class="top">
        <button type="button" class="quiet drawer" aria-expanded={open} aria-controls="pages" onClick={() => setOpen(!open)}>
          <span aria-hidden="true">☰</span>
          <span class="hidden">Pages</span>
        </button>
        <a class="brand" href={href("home")}>
          Gateway{door === "operators" && <span> operators</span>}
        </a>
        {door === "members" && <Customer />}
        <span class="space" />
        <button type="button" class="quiet find" onClick={() => setFinds(true)} title="Find (Ctrl-K)" aria-keyshortcuts="Control+K">
          <span aria-hidden="true">⌕</span>
          <span class="hidden">Find</span>
        </button>
        {door === "members" && <LiveDot />}
        <ThemeSwitch />
        <span class="who">
          <Theirs text={who.value?.email} />
          {who.value?.role && `, ${door === "members" ? who.value.role : who.value.role === "viewer" ? "read-only" : "full access"}`}
        </span>
        <button type="button" class="quiet" onClick={() => void leave()}>
          Sign out
        </button>
      </header>
      <nav id="pages" class="pages" aria-label="Pages">
        {Object.entries(PAGES).map(([name, { label }]) =>
          label ? (
            <a key={name} href={href(name)} aria-current={name === page ? "page" : page === "channel" && name === "channels" ? "true" : undefined}>
              {label}
            </a>
          ) : null,
        )}
        <a class="fine" href="/docs" target="_blank" rel="noreferrer">
          API documentation
        </a>
        <a class="fine" href="/console/assets/licences.txt" target="_blank" rel="noreferrer">
          Licences
        </a>
        <ClockSwitch />
        <p class="within fine">
          Signed in as <Theirs text={who.value?.email} />
        </p>
      </nav>
      <main id="main" tabIndex={-1}>
        {!reachable.value && (
          <p class="stale" role="status">
            The node is not answering. What you see may be out of date.
          </p>
        )}
        {state.value === "full" && (
          <p class="stale" role="status">
            Live updates are off: ten streams are open.
          </p>
        )}
        <Bounded key={page}>{Page ? <Page /> : <Nowhere />}</Bounded>
      </main>
      {finds && <Search pages={Object.entries(PAGES).flatMap(([name, { label }]) => (label ? [[name, label] as [string, string]] : []))} close={() => setFinds(false)} />}
    </div>
  );
}

function Nowhere() {
  return (
    <>
      <h1 tabIndex={-1}>Page not found</h1>
      <p>
        <a href={href("home")}>Go to the first page</a>
      </p>
    </>
  );
}

/** Over the page, which is kept with what was typed. */
function SignInAgain() {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const before = document.activeElement;
    const own = dialog.current;
    own?.showModal();
    return () => {
      own?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog ref={dialog} class="whole" aria-label="Sign in" onCancel={(event) => event.preventDefault()} onClose={() => dialog.current?.isConnected && dialog.current.showModal()}>
      <SignIn />
    </dialog>
  );
}

function Spoken() {
  return (
    <>
      <p class="hidden" role="status" aria-live="polite">
        {announcement.value}
      </p>
      <Toast />
      {byHand.value !== null && <CopyByHand text={byHand.value} />}
      <Tip />
    </>
  );
}

function App() {
  const known = who.value;
  if (known === undefined) {
    return (
      <main>
        <Skeleton />
      </main>
    );
  }
  const isWithin = known !== null && choosing.value === null;
  return (
    <>
      {isWithin ? <Frame key={known.email} /> : <SignIn />}
      {isWithin && ended.value && <SignInAgain />}
      <Spoken />
    </>
  );
}

/** Shows the console with the pages of its door. */
export function start(pages: Pages): void {
  PAGES = pages;
  document.documentElement.dataset.theme = storedTheme();
  document.getElementById("loading")?.remove();
  const root = document.getElementById("app")!;
  root.replaceChildren();
  keepPlace();
  render(<App />, root);
  void begin().finally(beginLive);
}
