import { type Page, get } from "../api";
import { Faces, Table, Theirs, Time, Title, useLoad } from "../parts";
import type { M } from "../types";

const ROLES: Record<string, string> = {
  owner: "Does everything, and may delete the account.",
  admin: "Does everything but delete the account.",
  member: "Does everything but make keys and change the account.",
  viewer: "Looks, and changes nothing.",
};

export function Members() {
  const list = useLoad((signal) => get<Page<M["Member"]>>("/v1/account/members", {}, signal), []);
  return (
    <>
      <Title>Members</Title>
      <Faces of={list}>
        {({ data }) => (
          <Table
            name="Members"
            rows={data}
            id={(row) => row.id}
            columns={[
              { head: "E-mail address", cell: (row) => <Theirs text={row.email} /> },
              { head: "Role", cell: (row) => <span title={ROLES[row.role]}>{row.role}</span> },
              { head: "May", cell: (row) => ROLES[row.role] },
              { head: "Last login", cell: (row) => <Time at={row.last_login_at} /> },
            ]}
          />
        )}
      </Faces>
      <p class="fine">The operator makes members and gives them other roles.</p>
    </>
  );
}
