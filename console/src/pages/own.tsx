// What is a member's own: the password, and where it is signed in.
import { useState } from "preact/hooks";
import { type Page, get, remove } from "../api";
import { Confirm, Faces, Failure, Field, Table, Time, say, useAction, useLoad } from "../parts";
import { changePassword, signOutEverywhere } from "../session";
import type { M } from "../types";

export function OwnPassword({ done }: { done: () => void }) {
  const [current, setCurrent] = useState("");
  const [next, setNext] = useState("");
  const { busy, error, run } = useAction();
  return (
    <form
      class="settings"
      onSubmit={(event) => {
        event.preventDefault();
        void run(async () => {
          await changePassword(current, next);
          say("Your password was changed");
          setCurrent("");
          setNext("");
          done();
        });
      }}
    >
      <h2>Your password</h2>
      <Field label="Current password" name="current_password" type="password" autocomplete="current-password" required value={current} error={error}
        onInput={(event) => setCurrent(event.currentTarget.value)} />
      <Field label="New password" name="new_password" type="password" autocomplete="new-password" required minLength={12} maxLength={128} value={next} error={error}
        hint="At least twelve characters. You stay signed in here, and your other sessions end." onInput={(event) => setNext(event.currentTarget.value)} />
      <Failure error={error} />
      <button type="submit" disabled={busy}>
        Change the password
      </button>
    </form>
  );
}

export function OwnSessions() {
  const list = useLoad((signal) => get<Page<M["Session"]>>("/v1/account/sessions", {}, signal), []);
  const [leaves, setLeaves] = useState(false);
  const { busy, error, run } = useAction();
  const end = (row: M["Session"]) =>
    run(async () => {
      await remove(`/v1/account/sessions/${row.id}`);
      say("The session was ended");
      list.reload();
    });
  return (
    <section>
      <h2>Where you are signed in</h2>
      <Failure error={error} />
      <Faces of={list}>
        {({ data }) => (
          <Table
            name="Your sessions"
            rows={data}
            id={(row) => row.id}
            columns={[
              { head: "Signed in", cell: (row) => <Time at={row.created_at} /> },
              { head: "Last seen", cell: (row) => <Time at={row.refreshed_at} /> },
              { head: "Ends", cell: (row) => <Time at={row.expires_at} /> },
              {
                head: "",
                cell: (row) =>
                  row.current ? (
                    "this one"
                  ) : (
                    <button type="button" class="quiet" disabled={busy} onClick={() => void end(row)}>
                      End
                    </button>
                  ),
              },
            ]}
          />
        )}
      </Faces>
      <p class="fine">The audit log shows the address and the browser of each login.</p>
      <button type="button" class="danger" onClick={() => setLeaves(true)}>
        Sign out everywhere
      </button>
      {leaves && (
        <Confirm title="Sign out everywhere" about={<p>All your sessions end at once, including this one.</p>} action="Sign out" close={() => setLeaves(false)} work={signOutEverywhere} />
      )}
    </section>
  );
}
