// The page on which a number is paired: the code at once, the next one before it is missed, and every refusal in words.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { type Page, type Refused, get, nodeTime, post } from "../api";
import { onEvent, state } from "../live";
import { Failure, Field, Time, announce, now, useAction, useLoad, whileSeen } from "../parts";
import { href } from "../router";
import { may, scanWithSimulatedPhone, simulatedPhones } from "../session";
import type { Channel, M } from "../types";
import { REASON } from "../words";
import { PAIRED } from "./channel";

interface Code {
  qr: string;
  raw: string;
  expires_at: string;
  /** When it came here, in milliseconds: the ring is drawn against what it had to live then. */
  at: number;
}

/** Statuses in which a code is shown at once; in the others a person has to want it. */
const BEGINS = ["pending", "qr", "logged_out"];

/** What to do about the end of a pairing or a session. */
const ENDED: Record<string, string> = {
  banned: "Pair another number.",
  pairing_refused: "The phone may have reached its limit of linked devices. Unlink one there, then start again.",
  client_outdated: "Ask the operator to upgrade the gateway.",
  no_worker: "Try again later, or ask the operator to add a node.",
  qr_timeout: "Have your phone ready, then start again.",
};

export function Pairing({ channel, reload }: { channel: Channel; reload: () => void }) {
  // The status in which codes were wanted. A pairing that ends in another one has to be wanted anew.
  const [began, setBegan] = useState(BEGINS.includes(channel.status) && may("write") ? channel.status : null);
  const [ended, setEnded] = useState(false);
  const status = channel.status;
  const before = useRef(status);
  const shown = useRef(status);
  /** A code was on the screen since the start. */
  const hadCode = useRef(false);
  const last = useLoad((signal) => get<Page<M["StatusChange"]>>(`/v1/channels/${channel.id}/status-history`, { limit: 1 }, signal), [channel.id, status]);
  const change = last.data?.data[0]?.to === status ? last.data.data[0] : undefined;
  const reason = change?.reason ?? "";
  useEffect(() => {
    // The last of the codes has passed, and nobody has scanned one. Where the pairing ended for another reason, such as the loss
    // of its node, the page asks for the next code by itself; where no code came at all, as without the network, its call says so.
    if (status === "pending" && reason === "qr_timeout" && shown.current === "qr" && hadCode.current) {
      setEnded(true);
      announce("No phone scanned the code.");
    }
    if (status !== "pending" || reason !== "") shown.current = status;
  }, [status, reason]);
  useEffect(() => {
    if (before.current !== status && status === "connecting") announce("A phone has scanned the code. Connecting.");
    if (before.current !== status && status === "connected") announce(`Connected as ${channel.phone_number}.`);
    if (before.current !== status && began !== null && BEGINS.includes(status)) setBegan(status);
    if (status === "connected") setBegan(null);
    before.current = status;
  }, [status]);

  if (status === "connected") return <Connected channel={channel} />;
  if (status === "connecting" || status === "reconnecting") {
    return (
      <section class="pairing-state" role="status">
        <span class="spinner" aria-hidden="true" />
        <h2>{status === "connecting" ? "Connecting" : "Reconnecting"}</h2>
        <p>The phone was recognised. This takes a second or two.</p>
      </section>
    );
  }
  if (status === "disabled_by_admin") return <p class="failure">This channel is disabled. It can be enabled under <a href={href("channel", { id: channel.id, tab: "status" })}>Status</a>, or by the operator if the operator disabled it.</p>;
  if (!may("write")) return <p>Your role cannot pair numbers. Ask somebody who can make changes.</p>;
  if (ended || began === null || !(BEGINS.includes(status) || status === began)) {
    return (
      <section class="pairing-state">
        <h2>{ended ? "No phone scanned the code" : "Not connected"}</h2>
        {ended ? (
          <p>The codes have expired. Have your phone ready, then start again.</p>
        ) : (
          <p>
            The channel is <strong>{status}</strong>
            {reason && <>: {REASON[reason] ?? reason}</>}
            {change?.details && <> (the ban ends <Time at={change.details.ban_until} />)</>}. {change?.details ? "Wait for that, or pair another number." : ENDED[reason]}
          </p>
        )}
        <div class="actions">
          <button
            type="button"
            onClick={() => {
              setEnded(false);
              setBegan(status);
            }}
          >
            Start {ended && "again"}
          </button>
          {PAIRED.concat("stopped_by_user", "error", "failed").includes(status) && (
            <Lifecycle channel={channel} call="connect" reload={reload}>
              Connect without a new code
            </Lifecycle>
          )}
        </div>
      </section>
    );
  }
  const broken = status === "pending" && !["", "created", "qr_timeout"].includes(reason);
  return <Scan channel={channel} broken={broken} hadCode={hadCode} stop={() => setBegan(null)} />;
}

function Lifecycle({ channel, call, reload, children }: { channel: Channel; call: string; reload: () => void; children: string }) {
  const { busy, error, run } = useAction();
  return (
    <>
      <button type="button" class="quiet" disabled={busy} onClick={() => void run(async () => { await post(`/v1/channels/${channel.id}/${call}`); reload(); })}>
        {children}
      </button>
      <Failure error={error} />
    </>
  );
}

function Scan({ channel, broken, hadCode, stop }: { channel: Channel; broken: boolean; hadCode: { current: boolean }; stop: () => void }) {
  const [code, setCode] = useState<Code>();
  const [error, setError] = useState<Refused>();
  const [byCode, setByCode] = useState(false);
  const shown = useRef<Code | undefined>(undefined);
  shown.current = code;
  const failed = useRef<Refused | undefined>(undefined);
  failed.current = error;
  const asking = useRef(false);
  /** The same code may come twice, by the answer and by the event. */
  const put = (next: Omit<Code, "at">) => {
    hadCode.current = true;
    setCode((before) => ({ ...next, at: before?.raw === next.raw ? before.at : nodeTime() }));
  };

  const ask = async () => {
    if (asking.current) return;
    asking.current = true;
    try {
      put(await get<M["Qr"]>(`/v1/channels/${channel.id}/qr`, { format: "json", size: 512 }));
      setError(undefined);
    } catch (refused) {
      setError(refused as Refused);
    } finally {
      asking.current = false;
    }
  };

  useEffect(() => {
    hadCode.current = false;
    void ask();
    return onEvent((event) => {
      if (event.name !== "qr.updated" || event.data.channel_id !== channel.id) return;
      const { qr, raw, expires_at } = event.data.data as Omit<Code, "at">;
      put({ qr, raw, expires_at });
      setError(undefined);
    });
  }, [channel.id]);

  useEffect(() => {
    return whileSeen(1_000, () => {
      const due = shown.current && Date.parse(shown.current.expires_at) + 500 < nodeTime();
      // With live updates the next code comes by itself; it is asked for where it does not.
      const late = shown.current && Date.parse(shown.current.expires_at) + 3_000 < nodeTime();
      // While the node that serves the page is replaced, nothing answers: the page goes on by itself once another one does.
      const isLost = failed.current?.unanswered && failed.current.at + 1_000 < nodeTime();
      if (late || isLost || (due && state.value !== "on")) void ask();
    });
  }, [channel.id]);

  useEffect(() => {
    if (broken && shown.current) void ask();
  }, [broken]);

  const left = code ? Math.max(0, Date.parse(code.expires_at) - now()) : 0;
  const life = code ? Math.max(1, Date.parse(code.expires_at) - code.at) : 1;
  const seconds = Math.ceil(left / 1000);
  return (
    <div class="pairing">
      <section class="qr" aria-label="Code to scan">
        <div class={code && left > 0 ? "picture" : "picture is-old"}>
          {code ? <img src={code.qr} width={320} height={320} alt="QR code to scan with the phone" /> : <span class="spinner" aria-hidden="true" />}
        </div>
        <p class="countdown">
          <svg viewBox="0 0 20 20" aria-hidden="true">
            <circle class="track" cx="10" cy="10" r="8" />
            <circle cx="10" cy="10" r="8" pathLength={100} stroke-dasharray={`${Math.min(1, left / life) * 100} 100`} />
          </svg>
          {code ? (left > 0 ? `This code expires in ${seconds} s` : "The next code is on its way") : "The code is on its way"}
        </p>
        {error && <Failure error={error} retry={() => void ask()} />}
        <p>
          <button type="button" class="quiet" onClick={stop}>
            Not now
          </button>
        </p>
      </section>
      <section class="steps">
        {simulatedPhones.value && <SimulatedPhone raw={code && left > 0 ? code.raw : undefined} />}
        <h2>On the phone</h2>
        <ol>
          <li>Open the messaging app whose number you want to use here.</li>
          <li>
            Go to <strong>Settings</strong>, then <strong>Linked devices</strong>.
          </li>
          <li>
            Tap <strong>Link a device</strong>.
          </li>
          <li>Point the camera at the code. This page goes on by itself.</li>
        </ol>
        {byCode ? (
          <ByCode channel={channel} />
        ) : (
          <p>
            No camera?{" "}
            <button type="button" class="link" onClick={() => setByCode(true)}>
              Use a code instead
            </button>
          </p>
        )}
      </section>
    </div>
  );
}

/** On a simulated network no phone of this world can scan: one of that network does. */
function SimulatedPhone({ raw }: { raw: string | undefined }) {
  const { busy, error, run } = useAction();
  return (
    <div class="next">
      <h2>No phone at hand?</h2>
      <p>This gateway uses a simulated network, which real phones cannot join. Let a simulated phone scan the code.</p>
      <button type="button" disabled={busy || !raw} onClick={() => raw && void run(() => scanWithSimulatedPhone(raw))}>
        Scan with a simulated phone
      </button>
      <Failure error={error} />
    </div>
  );
}

/** A code that is typed into the phone. */
function ByCode({ channel }: { channel: Channel }) {
  const [phone, setPhone] = useState("");
  const [given, setGiven] = useState<M["PairCode"]>();
  const [until, setUntil] = useState(0);
  const { busy, error, run } = useAction();
  const locked = Math.max(0, Math.ceil((until - now()) / 1_000));
  useEffect(() => {
    if (error?.code === "rate_limited") setUntil(error.at + error.retryAfter * 1_000);
  }, [error]);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void run(async () => {
          const code = await post<M["PairCode"]>(`/v1/channels/${channel.id}/pair-code`, { phone_number: phone.replace(/[^0-9]/g, "") });
          setGiven(code);
          setUntil(nodeTime() + 60_000);
          announce(`The code is ${[...code.code].join(" ")}.`);
        });
      }}
    >
      <Field label="The phone's number, with its country code" name="phone_number" inputMode="tel" autocomplete="off" required
        placeholder="15551234567" value={phone} error={error} onInput={(event) => setPhone(event.currentTarget.value)} />
      {given && (
        <p class="pair-code" role="status">
          <span class="hidden">The code is</span> {given.code}
        </p>
      )}
      {given && (
        <p class="fine">
          On the phone: <strong>Link with phone number instead</strong>, then type the code.
        </p>
      )}
      {error && <Failure error={error} />}
      <button type="submit" disabled={busy || locked > 0}>
        {locked > 0 ? `Another code in ${locked} s` : "Get a code"}
      </button>
    </form>
  );
}

function Connected({ channel }: { channel: Channel }) {
  const heading = useRef<HTMLHeadingElement>(null);
  useLayoutEffect(() => {
    // What had the focus may have gone with the code.
    if (document.activeElement === document.body) heading.current?.focus();
  }, []);
  return (
    <section class="pairing-state is-good" role="status">
      <span class="tick" aria-hidden="true">
        ✓
      </span>
      <h2 ref={heading} tabIndex={-1}>
        Connected
      </h2>
      <p class="number">+{channel.phone_number}</p>
      <p>
        {may("write") ? (
          <>
            <a class="button" href={href("channel", { id: channel.id, tab: "chats", chat: channel.phone_number })}>
              Send a message to yourself
            </a>{" "}
            <a class="button is-quiet" href={href("webhooks", { create: "1", channel: channel.id })}>
              Add a webhook
            </a>
          </>
        ) : (
          <a class="button" href={href("channel", { id: channel.id, tab: "chats" })}>
            Open its chats
          </a>
        )}
      </p>
    </section>
  );
}
