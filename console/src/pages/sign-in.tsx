import { useState } from "preact/hooks";
import { door } from "../api";
import { Failure, Field, useAction } from "../parts";
import { enterToken, signIn, why } from "../session";

export function SignIn() {
  return (
    <main class="sign-in">
      <h1 tabIndex={-1}>{door === "members" ? "Sign in" : "Gateway operators"}</h1>
      {why.value && <p role="status">{why.value}</p>}
      {door === "members" ? <Member /> : <Operator />}
    </main>
  );
}

function Member() {
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  const { busy, error, run } = useAction();
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void run(() => signIn(email, password));
      }}
    >
      <Field label="E-mail address" name="email" type="email" autocomplete="username" required value={email} error={error}
        onInput={(event) => setEmail(event.currentTarget.value)} />
      <Field label="Password" name="password" type="password" autocomplete="current-password" required value={password} error={error}
        onInput={(event) => setPassword(event.currentTarget.value)} />
      <Failure error={error} />
      <button type="submit" disabled={busy}>
        Sign in
      </button>
    </form>
  );
}

const LOOPBACK = ["localhost", "127.0.0.1", "[::1]"];

function Operator() {
  const [token, setToken] = useState("");
  const [keep, setKeep] = useState(false);
  const { busy, error, run } = useAction();
  const exposed = location.protocol === "http:" && !LOOPBACK.includes(location.hostname);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void run(() => enterToken(token.trim(), keep));
      }}
    >
      {exposed && (
        <p class="failure" role="note">
          This page came over plain HTTP from another machine: whoever listens on the way reads the token.
        </p>
      )}
      <Field label="Operator token" name="token" type="password" autocomplete="off" required value={token}
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
