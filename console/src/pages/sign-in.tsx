import { useState } from "preact/hooks";
import { door } from "../api";
import { Failure, Field, useAction } from "../parts";
import { askForReset, choosePassword, choosing, enterToken, signIn, why } from "../session";

export function SignIn() {
  if (choosing.value !== null) return <Choose />;
  return (
    <main class="sign-in">
      <h1 tabIndex={-1}>{door === "members" ? "Sign in" : "Gateway operators"}</h1>
      {why.value && <p role="status">{why.value}</p>}
      {!isSecureContext && (
        <p class="failure" role="note">
          This page was loaded over plain HTTP from another machine.{" "}
          {door === "members"
            ? "You cannot sign in here. Open it over HTTPS, or at localhost on the node's own machine."
            : "Anybody who listens on the network can read the token."}
        </p>
      )}
      {door === "members" ? <Member /> : <Operator />}
    </main>
  );
}

function Member() {
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  const [forgotten, setForgotten] = useState(false);
  const { busy, error, run } = useAction();
  if (forgotten) return <Forgotten close={() => setForgotten(false)} />;
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void run(() => signIn(email, password));
      }}
    >
      <Field label="E-mail address" name="email" type="email" autocomplete="username" required autofocus value={email} error={error}
        onInput={(event) => setEmail(event.currentTarget.value)} />
      <Field label="Password" name="password" type="password" autocomplete="current-password" required value={password} error={error}
        onInput={(event) => setPassword(event.currentTarget.value)} />
      <Failure error={error} />
      <div class="actions">
        <button type="button" class="link" onClick={() => setForgotten(true)}>
          Forgot your password?
        </button>
        <button type="submit" disabled={busy}>
          Sign in
        </button>
      </div>
    </form>
  );
}

/** Where a link of an invitation, or of a forgotten password, leads. */
function Choose() {
  const [password, setPassword] = useState("");
  const { busy, error, run } = useAction();
  return (
    <main class="sign-in">
      <h1 tabIndex={-1}>Choose a password</h1>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void run(() => choosePassword(password));
        }}
      >
        <Field label="Password" name="password" type="password" autocomplete="new-password" required autofocus minLength={12} maxLength={128} value={password} error={error}
          hint="At least twelve characters." onInput={(event) => setPassword(event.currentTarget.value)} />
        {error?.status === 401 ? (
          <p class="failure" role="alert">
            This link has already been used, has expired, or was replaced by a newer one. Ask for a new one.
          </p>
        ) : (
          <Failure error={error} />
        )}
        <div class="actions">
          <button type="button" class="quiet" onClick={() => (choosing.value = null)}>
            Sign in instead
          </button>
          <button type="submit" disabled={busy}>
            Set the password
          </button>
        </div>
      </form>
    </main>
  );
}

function Forgotten({ close }: { close: () => void }) {
  const [email, setEmail] = useState("");
  const [sent, setSent] = useState<boolean>();
  const { busy, error, run } = useAction();
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void run(async () => setSent(await askForReset(email)));
      }}
    >
      <p>You will get a message with a link to choose a new password.</p>
      <Field label="E-mail address" name="email" type="email" autocomplete="username" required autofocus value={email} error={error}
        onInput={(event) => setEmail(event.currentTarget.value)} />
      <Failure error={error} />
      {sent !== undefined && (
        <p class={sent ? "next" : "stale"} role="status">
          {sent
            ? "If a member has this address, a message is on its way. Its link works for an hour."
            : "This deployment sends no e-mail. An owner of your account can remove you and invite you again, or the operator can set a new password for you."}
        </p>
      )}
      <div class="actions">
        <button type="button" class="quiet" onClick={close}>
          Back
        </button>
        <button type="submit" disabled={busy}>
          Send the message
        </button>
      </div>
    </form>
  );
}

function Operator() {
  const [token, setToken] = useState("");
  const [keep, setKeep] = useState(false);
  const { busy, error, run } = useAction();
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void run(() => enterToken(token.trim(), keep));
      }}
    >
      <Field label="Operator token" name="token" type="password" autocomplete="off" required autofocus value={token}
        onInput={(event) => setToken(event.currentTarget.value)} />
      <label class="check">
        <input type="checkbox" checked={keep} onChange={(event) => setKeep(event.currentTarget.checked)} /> Keep it until this tab
        closes
      </label>
      <Failure error={error} />
      <button type="submit" disabled={busy}>
        Sign in
      </button>
    </form>
  );
}
