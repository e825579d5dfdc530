import { useState } from "preact/hooks";
import { asCurl, call, get, patch } from "../api";
import { Confirm, Faces, Failure, Field, Id, Table, Theirs, Time, Title, accountChanges, bytes, number, say, useAction, useLoad } from "../parts";
import { may, signOut, who } from "../session";
import type { M } from "../types";
import { OwnPassword, OwnSessions } from "./own";

export function Account() {
  const shown = useLoad((signal) => get<M["Account"]>("/v1/account", {}, signal), [accountChanges.value]);
  const [passwords, count] = useState(0);
  return (
    <>
      <Title>Account</Title>
      <Faces of={shown}>{(account) => <Form account={account} />}</Faces>
      <OwnPassword done={() => count(passwords + 1)} />
      <OwnSessions key={passwords} />
    </>
  );
}

function Form({ account }: { account: M["Account"] }) {
  const [name, setName] = useState(account.name);
  const [timezone, setTimezone] = useState(account.timezone);
  const [deleting, setDeleting] = useState(false);
  const { busy, error, run } = useAction();
  const quotas = Object.entries(account.storage ?? {}) as [string, { used: number | null; limit: number }][];
  return (
    <>
      <p class="fine">
        <Id id={account.id} /> · <Theirs text={account.email ?? "no e-mail address"} /> · plan <Theirs text={account.plan.name} /> ({account.plan.status}) · since <Time at={account.created_at} />
      </p>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void run(async () => {
            const saved = await patch<M["Account"]>("/v1/account", { name, timezone });
            setName(saved.name);
            setTimezone(saved.timezone);
            say("Saved");
            accountChanges.value++;
          });
        }}
      >
        <fieldset disabled={!may("account")}>
          <Field label="Name" name="name" required maxLength={120} value={name} error={error} onInput={(event) => setName(event.currentTarget.value)} />
          <Field label="Time zone" name="timezone" required value={timezone} error={error} hint="For example Europe/Berlin." onInput={(event) => setTimezone(event.currentTarget.value)} />
          <Failure error={error} />
          {may("account") && (
            <button type="submit" disabled={busy}>
              Save
            </button>
          )}
        </fieldset>
      </form>
      <h2>Limits of your plan</h2>
      <Table
        name="Quotas"
        rows={quotas}
        id={([name]) => name}
        columns={[
          { head: "What", cell: ([name]) => name },
          { head: "Used", cell: ([name, quota]) => (name.endsWith("_bytes") ? bytes(quota.used) : number(quota.used)), end: true },
          { head: "Limit", cell: ([name, quota]) => (name.endsWith("_bytes") ? bytes(quota.limit) : number(quota.limit)), end: true },
        ]}
      />
      {who.value?.role === "owner" && (
        <>
          <h2>Delete the account</h2>
          <button type="button" class="danger" onClick={() => setDeleting(true)}>
            Delete the account
          </button>
        </>
      )}
      {deleting && (
        <Confirm title="Delete the account" about={<p>Keys, sessions and channels stop working at once. The data is deleted after a grace period.</p>} action="Delete" typed={account.name} command={asCurl("DELETE", "/v1/account", { confirm: account.name })}
          close={() => setDeleting(false)} work={() => call("DELETE", "/v1/account", { body: { confirm: account.name } }).then(signOut)} />
      )}
    </>
  );
}
