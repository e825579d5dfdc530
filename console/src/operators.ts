// The pages of operators, in the order in which they are listed.
import { Audit } from "./pages/audit";
import { Customers } from "./pages/customers";
import { Backup, Releases, Secrets } from "./pages/keeping";
import { Placed, Stuck, Trace } from "./pages/operate";
import { Support } from "./pages/support";
import { Timeline } from "./pages/timeline";
import { Layout, Nodes, Overview, Shards } from "./pages/cluster";
import { start } from "./main";

start({
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
});
