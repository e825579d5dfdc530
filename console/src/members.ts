// The pages of members, in the order in which they are listed; those without a label are reached from others.
import { Account } from "./pages/account";
import { Audit } from "./pages/audit";
import { ChannelPage } from "./pages/channel";
import { Channels } from "./pages/channels";
import { Deliveries } from "./pages/deliveries";
import { Events } from "./pages/events";
import { Home } from "./pages/home";
import { Keys } from "./pages/keys";
import { Members } from "./pages/people";
import { Support } from "./pages/support";
import { Usage } from "./pages/usage";
import { Webhooks } from "./pages/webhooks";
import { start } from "./main";

start({
  home: { label: "Home", page: Home },
  channels: { label: "Channels", page: Channels },
  channel: { page: ChannelPage },
  webhooks: { label: "Webhooks", page: Webhooks },
  deliveries: { label: "Deliveries", page: Deliveries },
  events: { label: "Events", page: Events },
  keys: { label: "API keys", page: Keys },
  usage: { label: "Usage", page: Usage },
  members: { label: "Members", page: Members },
  audit: { label: "Audit log", page: Audit },
  support: { label: "Support", page: Support },
  account: { label: "Account", page: Account },
});
