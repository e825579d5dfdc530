// The pages of operators, in the order in which they are listed.
import { Audit } from "./audit";
import { Customers } from "./customers";
import { Backup, Releases, Secrets } from "./keeping";
import { Placed, Stuck, Trace } from "./operate";
import { Support } from "./support";
import { Timeline } from "./timeline";
import { Layout, Nodes, Overview, Shards } from "./cluster";

export const pages = {
  home: { label: "Overview", page: Overview },
  nodes: { label: "Nodes", page: Nodes },
  shards: { label: "Shards", page: Shards },
  layout: { label: "Layout", page: Layout },
  timeline: { label: "Timeline", page: Timeline },
  customers: { label: "Customers", page: Customers },
  channels: { label: "Channels", page: Placed },
  webhooks: { label: "Webhooks", page: Stuck },
  trace: { label: "Trace", page: Trace },
  tickets: { label: "Tickets", page: Support },
  backup: { label: "Backup", page: Backup },
  secrets: { label: "Secrets", page: Secrets },
  releases: { label: "Releases", page: Releases },
  audit: { label: "Audit log", page: Audit },
};
