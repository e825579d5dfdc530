// Members of the account: who they are, who is invited, and what they may do.
import { useState } from "preact/hooks";
import { type Page, get, patch, post, remove } from "../api";
import { Badge, Confirm, Dialog, Done, Faces, Failure, Field, FormEnd, Secret, Table, Theirs, Time, Title, plain, say, useAction, useLoad } from "../parts";
import { type Who, may, signOut, who } from "../session";
import type { M } from "../types";
import { MEMBER } from "../words";

type Member = M["Member"];
type Role = Who["role"];

const ROLES: Record<Role, string> = {
  owner: "Can do everything, including deleting the account.",
  admin: "Can do everything except delete the account.",
  member: "Can do everything except create keys and change the account.",
  viewer: "Can see everything and ask for help, but changes nothing.",
};

/** Owners are made by owners. */
const given = (): Role[] => (Object.keys(ROLES) as Role[]).filter((role) => role !== "owner" || who.value?.role === "owner");

/** The node decides; what it would refuse is not offered. */
const looksAfter = (row: Member) => may("account") && (row.role !== "owner" || who.value?.role === "owner");

type Asked = { what: "invite" } | { what: "role" | "remove"; member: Member } | { what: "invited"; invited: M["InvitedMember"] };

export function Members() {
  const list = useLoad((signal) => get<Page<Member>>("/v1/account/members", {}, signal), []);
  const [asked, ask] = useState<Asked>();
  const { busy, error, run } = useAction();
  const close = () => {
    ask(undefined);
    list.reload();
  };
  const isSelf = (row: Member) => row.email === who.value?.email;
  const again = (row: Member) => run(async () => ask({ what: "invited", invited: await post<M["InvitedMember"]>(`/v1/account/members/${row.id}/invitation`) }));
  return (
    <>
      <Title
        extra={
          may("account") && (
            <button type="button" onClick={() => ask({ what: "invite" })}>
              Invite a member
            </button>
          )
        }
      >
        Members
      </Title>
      <Failure error={error} />
      <Faces of={list}>
        {({ data }) => (
          <Table
            name="Members"
            rows={data}
            id={(row) => row.id}
            columns={[
              { head: "E-mail address", cell: (row) => <><Theirs text={row.email} />{isSelf(row) && " (you)"}</> },
              { head: "State", cell: (row) => <Badge status={row.status} title={MEMBER[row.status]} /> },
              { head: "Role", cell: (row) => row.role },
              { head: "Permissions", cell: (row) => ROLES[row.role] },
              { head: "Last login", cell: (row) => <Time at={row.last_login_at} /> },
              {
                head: "",
                cell: (row) => (
                  <span class="actions">
                    {looksAfter(row) && row.status === "invited" && (
                      <button type="button" class="quiet" disabled={busy} onClick={() => void again(row)}>
                        Invite again
                      </button>
                    )}
                    {looksAfter(row) && !isSelf(row) && (
                      <button type="button" class="quiet" onClick={() => ask({ what: "role", member: row })}>
                        Change role
                      </button>
                    )}
                    {(looksAfter(row) || isSelf(row)) && (
                      <button type="button" class="danger" onClick={() => ask({ what: "remove", member: row })}>
                        {isSelf(row) ? "Leave" : "Remove"}
                      </button>
                    )}
                  </span>
                ),
              },
            ]}
          />
        )}
      </Faces>
      {asked?.what === "invite" && <Invite done={(invited) => { list.reload(); ask({ what: "invited", invited }); }} close={close} />}
      {asked?.what === "invited" && <Invited invited={asked.invited} close={close} />}
      {asked?.what === "role" && <ChangeRole member={asked.member} close={close} />}
      {asked?.what === "remove" && (
        <Confirm
          title={isSelf(asked.member) ? "Leave the account" : `Remove ${plain(asked.member.email)}`}
          about={<p>{asked.member.status === "invited" ? "The invitation stops working at once." : "All sessions of this member end at once. Keys created by this member keep working."}</p>}
          action={isSelf(asked.member) ? "Leave" : "Remove"}
          close={close}
          work={() => remove(`/v1/account/members/${asked.member.id}`).then(isSelf(asked.member) ? signOut : list.reload)}
        />
      )}
    </>
  );
}

function RoleField({ role, set }: { role: Role; set: (role: Role) => void }) {
  return (
    <Field label="Role" name="role" value={role} hint={ROLES[role]} onChange={(event) => set(event.currentTarget.value as Role)}>
      {given().map((word) => (
        <option key={word} value={word}>
          {word}
        </option>
      ))}
    </Field>
  );
}

function Invite({ done, close }: { done: (invited: M["InvitedMember"]) => void; close: () => void }) {
  const [email, setEmail] = useState("");
  const [role, setRole] = useState<Role>("member");
  const { busy, error, run } = useAction();
  return (
    <Dialog title="Invite a member" close={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void run(async () => done(await post("/v1/account/members", { email, role })));
        }}
      >
        <Field label="E-mail address" name="email" type="email" autofocus required value={email} error={error} onInput={(event) => setEmail(event.currentTarget.value)} />
        <RoleField role={role} set={setRole} />
        <Failure error={error} />
        <FormEnd close={close} label="Invite" disabled={busy} />
      </form>
    </Dialog>
  );
}

function Invited({ invited, close }: { invited: M["InvitedMember"]; close: () => void }) {
  const { mailed, url, token, expires_at } = invited.invitation;
  return (
    <Dialog title="Invited" close={close}>
      {mailed ? (
        <p>
          A message is on its way to <Theirs text={invited.email} />. Its link works once and expires <Time at={expires_at} />.
        </p>
      ) : (
        <>
          <p>
            This deployment sends no e-mail, so pass this on to <Theirs text={invited.email} /> yourself. It works once and expires <Time at={expires_at} />.
          </p>
          <Secret label={url ? "The link" : "The token, for PUT /v1/auth/password/reset"} secret={url ?? token ?? ""} />
        </>
      )}
      <Done close={close} />
    </Dialog>
  );
}

function ChangeRole({ member, close }: { member: Member; close: () => void }) {
  const [role, setRole] = useState<Role>(member.role);
  const { busy, error, run } = useAction();
  return (
    <Dialog title={`The role of ${plain(member.email)}`} close={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void run(async () => {
            await patch(`/v1/account/members/${member.id}`, { role });
            say("The role was changed");
            close();
          });
        }}
      >
        <RoleField role={role} set={setRole} />
        <p class="fine">It takes effect with the member's next request.</p>
        <Failure error={error} />
        <FormEnd close={close} label="Change" disabled={busy || role === member.role} />
      </form>
    </Dialog>
  );
}
