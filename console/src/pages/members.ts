// The pages of members, in the order in which they are listed; those without a label are reached from others.
import { Account } from "./account";
import { Audit } from "./audit";
import { ChannelPage } from "./channel";
import { Channels } from "./channels";
import { Deliveries } from "./deliveries";
import { Events } from "./events";
import { Home } from "./home";
import { Keys } from "./keys";
import { Members } from "./people";
import { Support } from "./support";
import { Usage } from "./usage";
import { Webhooks } from "./webhooks";

export const pages = {
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
};
