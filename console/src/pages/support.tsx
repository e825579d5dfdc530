// Tickets: members ask, operators answer. Both see the same conversation.
import { useState } from "preact/hooks";
import { type Page, asCurl, door, get, patch, post, withQuery } from "../api";
import { Badge, CopyButton, Dialog, Faces, Failure, Field, FormEnd, Id, Listing, TextField, Theirs, Time, Title, param, say, useAction, useGrowing, useLoad, useShown } from "../parts";
import { go, href, leave } from "../router";
import { may } from "../session";
import type { M, O } from "../types";

const PATH = door === "members" ? "/v1/support/tickets" : "/v1/admin/support/tickets";
const PAGE_NAME = door === "members" ? "support" : "tickets";
const STATUSES = ["open", "waiting", "solved", "closed"];

type Row = M["TicketView"] & Partial<Pick<O["OwnedTicket"], "customer" | "request_id">>;
type Conversation = M["Conversation"] & Partial<Pick<O["OwnedTicket"], "customer" | "request_id">>;

export function Support() {
  const id = param("id");
  return id ? <One key={id} id={id} /> : <All />;
}

function All() {
  const status = param("status");
  const customer_id = param("customer_id");
  const load = (cursor?: string, signal?: AbortSignal) => get<Page<Row>>(PATH, { status, customer_id, limit: 50, cursor }, signal);
  const list = useGrowing<Row>((signal) => load(undefined, signal), (cursor) => load(cursor), [status, customer_id], { every: 30_000 });
  return (
    <>
      <Title
        extra={
          door === "members" ? (
            <a class="button" href={href("support", { create: "1" })}>
              Ask for help
            </a>
          ) : (
            <CopyButton text={asCurl("GET", withQuery(PATH, { status, customer_id }))}>As a command</CopyButton>
          )
        }
      >
        Support
      </Title>
      <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
        <Field label="Status" name="status" value={status} onChange={(event) => go(href(PAGE_NAME, { status: event.currentTarget.value, customer_id }))}>
          <option value="">all</option>
          {STATUSES.map((word) => (
            <option key={word} value={word}>
              {word}
            </option>
          ))}
        </Field>
        {customer_id && (
          <a class="button is-quiet" href={href(PAGE_NAME, { status })}>
            Show all customers
          </a>
        )}
      </form>
      <Listing
        of={list}
        name="Tickets, the newest first"
        empty={<p>{door === "members" ? "No tickets. If you have a question, ask for help; the operator answers here." : "No tickets."}</p>}
        columns={[
          { head: "Number", cell: (row) => row.number, end: true },
          { head: "Subject", cell: (row) => <a href={href(PAGE_NAME, { id: row.id })}><Theirs text={row.subject} /></a> },
          { head: "Status", cell: (row) => <Badge status={row.status} /> },
          { head: "Priority", cell: (row) => row.priority },
          ...(door === "operators" ? [{ head: "Customer", cell: (row: Row) => <Theirs text={row.customer?.name ?? row.customer?.id} /> }] : []),
          { head: "Updated", cell: (row) => <Time at={row.updated_at} /> },
        ]}
      />
      {door === "members" && param("create") && <Ask />}
    </>
  );
}

/** `request` is the id of a request that failed, where somebody asks about that. */
function Ask() {
  const request = param("request");
  const [subject, setSubject] = useState(request ? "A request that failed" : "");
  const [message, setMessage] = useState("");
  const [category, setCategory] = useState("other");
  const [priority, setPriority] = useState("normal");
  const { busy, error, run } = useAction();
  const isShown = useShown();
  const close = () => leave(href("support"));
  return (
    <Dialog title="Ask for help" close={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void run(async () => {
            const made = await post<Row>(PATH, { subject, message, category, priority, ...(request && { request_id: request }) });
            if (isShown()) go(href("support", { id: made.id }), true);
            else say("Your question was sent");
          });
        }}
      >
        <Field label="Subject" name="subject" required maxLength={160} autofocus value={subject} error={error} onInput={(event) => setSubject(event.currentTarget.value)} />
        <div class="pair">
          <Field label="About" name="category" value={category} error={error} onChange={(event) => setCategory(event.currentTarget.value)}>
            {["connection", "delivery", "webhooks", "billing", "other"].map((word) => (
              <option key={word} value={word}>
                {word}
              </option>
            ))}
          </Field>
          <Field label="Priority" name="priority" value={priority} error={error} onChange={(event) => setPriority(event.currentTarget.value)}>
            {["low", "normal", "urgent"].map((word) => (
              <option key={word} value={word}>
                {word}
              </option>
            ))}
          </Field>
        </div>
        <TextField label="What is the problem?" name="message" value={message} longest={5_000} set={setMessage} />
        {request && (
          <p class="fine">
            About the request <Id id={request} />
          </p>
        )}
        <Failure error={error} />
        <FormEnd close={close} label="Send" disabled={busy} />
      </form>
    </Dialog>
  );
}

function One({ id }: { id: string }) {
  const path = `${PATH}/${encodeURIComponent(id)}`;
  const shown = useLoad((signal) => get<Conversation>(path, {}, signal), [id], { every: 10_000 });
  const [message, setMessage] = useState("");
  const { busy, error, run } = useAction();
  const send = () =>
    run(async () => {
      await post(`${path}/messages`, { message });
      setMessage("");
      shown.reload();
    });
  return (
    <>
      <p>
        <a href={href(PAGE_NAME)}>‹ Support</a>
      </p>
      <Title extra={<>{door === "operators" && <CopyButton text={asCurl("GET", path)}>As a command</CopyButton>}{shown.data && <Badge status={shown.data.status} />}</>}>
        {shown.data ? <>{shown.data.number}. <Theirs text={shown.data.subject} /></> : "Ticket"}
      </Title>
      <Faces of={shown}>
        {(ticket) => (
          <>
            <p class="fine">
              {ticket.category} · {ticket.priority} · by <Theirs text={ticket.created_by} />
              {ticket.customer && <> of <Theirs text={ticket.customer.name ?? ticket.customer.id} /></>} · <Time at={ticket.created_at} />
              {ticket.request_id && <> · request <Id id={ticket.request_id} /></>}
            </p>
            {door === "operators" && may("write") && (
              <Field label="Status" name="status" value={ticket.status} error={error}
                onChange={(event) => {
                  const status = event.currentTarget.value;
                  void run(async () => {
                    await patch(path, { status });
                    say(`The ticket is now ${status}`);
                    shown.reload();
                  });
                }}>
                {STATUSES.map((word) => (
                  <option key={word} value={word}>
                    {word}
                  </option>
                ))}
              </Field>
            )}
            <ol class="talk" aria-label="Messages, the newest last">
              {ticket.messages.map((row) => (
                <li key={row.id} class={(row.author === "support") === (door === "operators") ? "bubble is-mine" : "bubble"}>
                  <p class="text">
                    <Theirs text={row.message} />
                  </p>
                  <p class="fine">
                    {row.author} · <Time at={row.created_at} />
                  </p>
                </li>
              ))}
            </ol>
            <Failure error={error} />
            {ticket.status === "closed" ? (
              <p class="none">This ticket is closed. {door === "members" && "Open a new one if you have more to ask."}</p>
            ) : door === "members" || may("write") ? (
              <form
                onSubmit={(event) => {
                  event.preventDefault();
                  void send();
                }}
              >
                <TextField label={door === "members" ? "Your message" : "Your answer"} name="message" value={message} longest={5_000} set={setMessage} />
                <button type="submit" disabled={busy || message.trim() === ""}>
                  Send
                </button>
              </form>
            ) : null}
          </>
        )}
      </Faces>
    </>
  );
}
