// What the console says, in one place: the words of the interface, each with a sentence.

export const STATUS: Record<string, string> = {
  pending: "Not paired yet.",
  qr: "Showing a code and waiting for a phone to scan it.",
  connecting: "A phone was paired, or the session is being opened.",
  reconnecting: "The connection was lost and is being restored. Messages are queued meanwhile.",
  connected: "Ready to send and receive messages.",
  disconnected: "Paired, but not connected.",
  logged_out: "The phone ended the session. Pair it again.",
  stopped_by_user: "Disconnected on purpose. Its credentials are kept.",
  disabled_by_admin: "Disabled. It does not run until it is enabled.",
  error: "Stopped by an error. Restart it, or pair it again.",
  failed: "Stopped for good: the number was banned, the pairing was refused, or the network could not be reached for too long.",
};

/** Of a member. */
export const MEMBER: Record<string, string> = {
  active: "Has a password and can sign in.",
  invited: "Was invited, but has not chosen a password yet.",
};

export const REASON: Record<string, string> = {
  created: "it was created",
  qr_requested: "a code was requested",
  connect_requested: "a connection was requested",
  paired: "a phone was paired",
  login_ok: "the network accepted the login",
  network: "the connection to the network was lost",
  worker_lost: "the node that held it went down",
  rebalance: "it moved to another node",
  qr_timeout: "nobody scanned the code",
  pairing_refused: "the phone refused the pairing",
  reconnect_budget: "the network could not be reached for too long",
  no_worker: "no node had room for it",
  logout: "it was logged out",
  session_invalidated: "the network ended its session",
  kicked_other_device: "another device took its place",
  stream_replaced_loop: "other devices kept taking its place",
  client_outdated: "the network requires a newer gateway",
  auth_state: "its credentials could not be used",
  crash_loop: "its session kept failing",
  user: "somebody requested it",
  admin: "it was disabled or enabled",
  banned: "the network has banned the number",
  restored: "the cluster was restored from a backup",
};

export const TICK: Record<string, [string, string]> = {
  queued: ["◷", "Accepted, but not sent yet."],
  sent: ["✓", "Sent to the network."],
  delivered: ["✓✓", "Delivered to the phone."],
  read: ["✓✓", "Read."],
  played: ["▶✓", "Played."],
  failed: ["✗", "Not delivered."],
  received: ["", "Received."],
};

export const DELIVERY: Record<string, string> = {
  pending: "Waiting for its first attempt.",
  in_flight: "An attempt is in progress.",
  retrying: "Failed, and will be retried.",
  paused: "Waiting, because its endpoint is switched off.",
  delivered: "Delivered to its endpoint.",
  exhausted: "Given up: it will not be retried.",
};

export const OUTCOME: Record<string, string> = {
  success: "The receiver accepted it.",
  timeout: "The receiver did not answer in time.",
  dns: "The receiver's host name could not be resolved.",
  connect: "The receiver could not be reached.",
  tls: "The receiver's certificate was not accepted.",
  redirect: "The receiver answered with a redirect, which is not followed.",
  http: "The receiver answered with an error.",
  blocked: "The receiver's address is not allowed.",
  endpoint_deleted: "The endpoint was deleted.",
  interrupted: "The node stopped during the attempt.",
};

/** Why the gateway has switched an endpoint off. */
export const OFF: Record<string, string> = {
  gone: "its receiver answered 410 Gone",
  failing: "its receiver accepted nothing for days",
};

/** Why deliveries of an endpoint wait. */
export const STUCK: Record<string, string> = {
  disabled: "Switched off, so nothing is sent to it.",
  failing: "Attempts are failing.",
  slow: "Attempts succeed, but deliveries are still waiting.",
};

/** What each event tells. */
export const EVENT: Record<string, string> = {
  "message.received": "Somebody sent the channel a message.",
  "message.sent": "A message was sent to the network.",
  "message.reaction": "Somebody reacted to a message.",
  "message.status": "A message was delivered, read or played, or it failed.",
  "channel.connected": "A channel connected.",
  "channel.disconnected": "A channel lost its connection.",
  "channel.status": "A channel's status changed.",
  "qr.updated": "There is a new code to scan.",
  "group.created": "The channel is in a new group.",
  "group.updated": "A group's subject or settings changed.",
  "group.participant_added": "Somebody joined a group.",
  "group.participant_removed": "Somebody left a group.",
  "group.admin_promoted": "Somebody became an admin of a group.",
  "group.admin_demoted": "Somebody is no longer an admin of a group.",
  "chat.updated": "A chat's flags changed.",
  "chat.archived": "A chat was archived or unarchived.",
  "chat.pinned": "A chat was pinned or unpinned.",
  "presence.updated": "Somebody is online, typing or recording.",
  "order.placed": "A customer placed an order.",
  "order.cancelled": "An order was cancelled.",
  "cart.updated": "A customer's cart changed.",
  "story.viewed": "Somebody viewed a story.",
  "call.offered": "Somebody is calling.",
  "call.terminated": "A call ended.",
  "contact.resolved": "The phone number behind a contact is now known.",
};

/** What the cluster's timeline tells. */
export const KIND: Record<string, string> = {
  node: "nodes that came and went",
  lead: "shards with a new leader",
  layout: "layout changes",
  check: "checks that changed",
  backup: "backups",
  release: "releases and formats",
  secrets: "keys and secrets",
};

/** What to do about a refusal, by its code. */
export const ADVICE: Record<string, string> = {
  no_qr: "There is no code at the moment. Start again in a few seconds.",
  worker_at_capacity: "The node is busy, or the channel is moving to another one. Try again in a few seconds.",
  pair_code_failed: "The network did not give a code for this number. Check the number (with its country code, without +), or scan the QR code instead.",
  pair_code_unavailable: "The channel cannot take a code in its current status. Start pairing first.",
  plan_channel_limit: "Your plan has no channels left. Delete one, or ask for a larger plan.",
  plan_limit: "You have reached a limit of your plan. Delete something, or ask for a larger plan.",
  trial_expired: "The trial has ended. You can still read, but sending needs a plan.",
  payment_overdue: "A payment is overdue. You can still read, but not send until it is paid.",
  channel_unavailable: "The channel is stopped. Connect it, or pair it again.",
  not_connected: "The channel is not connected. Pair it, or connect it.",
  undeliverable_recipient: "This recipient cannot receive messages. Check that the number has only digits, includes the country code and is registered on the network.",
  insufficient_scope: "Your role does not allow this.",
  rate_limited: "Too many requests in a short time.",
  invalid_lifecycle_transition: "This is not possible in the channel's current status.",
  auth_invalid: "That did not match. Check it and try again.",
  unreachable: "The node did not answer. Check that it is running and that you can reach it.",
  not_found: "Nothing here has this id. It may have been deleted.",
  channel_not_found: "There is no such channel in this account.",
  webhook_endpoint_not_found: "There is no such endpoint in this account.",
  storage_full: "The cluster's disks are nearly full. Tell the operator.",
};
