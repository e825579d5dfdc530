// What the console says, in one place: the words of the interface, each with a sentence.

export const STATUS: Record<string, string> = {
  pending: "Not paired yet.",
  qr: "Shows a code and waits for a phone.",
  connecting: "A phone was paired or a session is being opened.",
  reconnecting: "The connection was lost and is being made again; sends are queued.",
  connected: "Sends and receives.",
  disconnected: "Has credentials and no connection.",
  logged_out: "The phone ended the session. Pair it again.",
  stopped_by_user: "Was disconnected on purpose; its credentials are kept.",
  disabled_by_admin: "Was disabled, and does not run until it is enabled.",
  error: "Ended by an error. Restart it, or pair it again.",
  failed: "Ended for good: the number was banned, the pairing was refused, or the network was away for too long.",
};

/** Of a member. */
export const MEMBER: Record<string, string> = {
  active: "Has a password, and may sign in.",
  invited: "Was invited, and has not chosen a password yet.",
};

export const REASON: Record<string, string> = {
  created: "it was created",
  qr_requested: "a code was asked for",
  connect_requested: "it was told to connect",
  paired: "a phone was paired",
  login_ok: "the network let it in",
  network: "the network's connection was lost",
  worker_lost: "the node that held it went away",
  rebalance: "it moved to another node",
  qr_timeout: "nobody scanned the code",
  pairing_refused: "the phone refused the pairing",
  reconnect_budget: "the network was away for too long",
  no_worker: "no node had room for it",
  logout: "it was logged out",
  session_invalidated: "the network ended its session",
  kicked_other_device: "another device took its place",
  stream_replaced_loop: "other devices took its place again and again",
  client_outdated: "the network wants a newer gateway",
  auth_state: "its credentials could not be used",
  crash_loop: "its session failed again and again",
  user: "it was asked for",
  admin: "it was disabled, or enabled again",
  banned: "the network has banned the number",
  restored: "the cluster was restored from a backup",
};

export const TICK: Record<string, [string, string]> = {
  queued: ["◷", "Taken, and not yet sent."],
  sent: ["✓", "The network has it."],
  delivered: ["✓✓", "It reached the phone."],
  read: ["✓✓", "It was read."],
  played: ["▶✓", "It was played."],
  failed: ["✗", "It was not delivered."],
  received: ["", "Received."],
};

export const DELIVERY: Record<string, string> = {
  pending: "Waits for its first attempt.",
  in_flight: "An attempt is under way.",
  retrying: "Failed, and will be tried again.",
  paused: "Waits because its endpoint is switched off.",
  delivered: "Reached its endpoint.",
  exhausted: "Was given up.",
};

export const OUTCOME: Record<string, string> = {
  success: "The receiver took it.",
  timeout: "The receiver did not answer in time.",
  dns: "The receiver's name could not be resolved.",
  connect: "The receiver could not be reached.",
  tls: "The receiver's certificate was not accepted.",
  redirect: "The receiver answered with a redirect, which is not followed.",
  http: "The receiver answered with an error.",
  blocked: "The receiver's address may not be called.",
  endpoint_deleted: "The endpoint was deleted.",
  interrupted: "The node ended during the attempt.",
};

/** Why the gateway has switched an endpoint off. */
export const OFF: Record<string, string> = {
  gone: "its receiver answered that it is gone (410)",
  failing: "its receiver took nothing for days",
};

/** Why deliveries of an endpoint wait. */
export const STUCK: Record<string, string> = {
  disabled: "It is switched off, and nobody is called.",
  failing: "Attempts fail.",
  slow: "Attempts get through, and deliveries wait all the same.",
};

/** What each event tells. */
export const EVENT: Record<string, string> = {
  "message.received": "Somebody wrote to the channel.",
  "message.sent": "A send reached the network.",
  "message.reaction": "Somebody reacted to a message.",
  "message.status": "A message was delivered, read, played, or failed.",
  "channel.connected": "A channel is connected.",
  "channel.disconnected": "A channel lost its connection.",
  "channel.status": "A channel's status changed.",
  "qr.updated": "There is a new code to scan.",
  "group.created": "The channel is in a new group.",
  "group.updated": "A group's subject or settings changed.",
  "group.participant_added": "Somebody joined a group.",
  "group.participant_removed": "Somebody left a group.",
  "group.admin_promoted": "Somebody became an admin of a group.",
  "group.admin_demoted": "Somebody is no admin any more.",
  "chat.updated": "A chat's flags changed.",
  "chat.archived": "A chat was put into the archive, or taken out.",
  "chat.pinned": "A chat was pinned, or not any more.",
  "presence.updated": "Somebody is online, types, or records.",
  "order.placed": "A customer ordered.",
  "order.cancelled": "An order was cancelled.",
  "cart.updated": "A customer's cart changed.",
  "story.viewed": "Somebody saw a story.",
  "call.offered": "Somebody calls.",
  "call.terminated": "A call ended.",
  "contact.resolved": "The number behind a contact is known now.",
};

/** What the cluster's timeline tells. */
export const KIND: Record<string, string> = {
  node: "nodes that came and went",
  lead: "shards that another node leads",
  layout: "changes of the layout",
  check: "checks that changed",
  backup: "backups",
  release: "releases and formats",
  secrets: "keys and secrets",
};

/** What to do about a refusal, by its code. */
export const ADVICE: Record<string, string> = {
  no_qr: "There is no code at the moment. Start again in a few seconds.",
  worker_at_capacity: "The node is busy, or the channel is moving to another one. Try again in a few seconds.",
  pair_code_failed: "The network did not give a code for this number. Check the number, with its country code and without +, or scan the QR code.",
  pair_code_unavailable: "In its present status the channel takes no code. Start the pairing first.",
  plan_channel_limit: "The plan's number of channels is used up. Delete one, or ask for a larger plan.",
  plan_limit: "The plan's limit is reached. Delete something, or ask for a larger plan.",
  trial_expired: "The trial has ended. Reading goes on; sending needs a plan.",
  payment_overdue: "A payment is overdue. Reading goes on; sending waits for it.",
  channel_unavailable: "The channel is stopped. Connect it, or pair it again.",
  not_connected: "The channel is not connected. Pair it, or connect it.",
  undeliverable_recipient: "This recipient cannot be written to. Check the number: country code, digits only, and registered on the network.",
  insufficient_scope: "Your role does not allow this.",
  rate_limited: "Too many calls in a short time.",
  invalid_lifecycle_transition: "The channel's present status does not allow this.",
  auth_invalid: "That did not match.",
  unreachable: "The node did not answer. Check that it runs and that you reach it.",
  not_found: "There is nothing by this id here. It may have been deleted.",
  channel_not_found: "There is no such channel in this account.",
  webhook_endpoint_not_found: "There is no such endpoint in this account.",
  storage_full: "There is little room on the cluster's disks. Tell the operator.",
};
