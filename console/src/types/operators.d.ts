// Written by types.mjs.
export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /**
         * @description `read` covers GET (and HEAD), `write` every other method.
         * @enum {string}
         */
        Access: "read" | "write";
        /** @description Who acted. `kind` is `api_key`, `session`, `operator`, `join_token`, `system` or `unknown`. */
        AuditActor: {
            /** @description The e-mail address. */
            email?: string | null;
            /** @description The id of the key or the member. */
            id: string | null;
            /** @description The first 12 characters of the key, safe to show. */
            prefix?: string | null;
            /** @description What kind it is. */
            type: string;
        };
        /** @description What was acted upon; the label remains when it is deleted. */
        AuditTarget: {
            /** @description Its id. */
            id: string;
            /** @description Its name at that time. */
            label: string;
            /** @description What kind it is. */
            type: string;
        };
        /**
         * @description Who wrote a message of a ticket.
         * @enum {string}
         */
        Author: "customer" | "support";
        Backup: {
            /** @description The cluster that it is of. */
            cluster_id: string;
            /** @description The format of the cluster, which says what its records may be. */
            format: components["schemas"]["Format"];
            /**
             * Format: uint16
             * @description Its groups are the shards, from 1, and the directory, 0.
             */
            shards: number;
            /** @description The release of the node that answers. */
            version: string;
        };
        /** @description A backup that a node takes. */
        BackupJob: {
            /**
             * Format: date-time
             * @description When it began; null while it waits.
             */
            began_at: string;
            /**
             * Format: date-time
             * @description When it ended; null while it has not.
             */
            ended_at: string | null;
            /** @description Names this recovery in logs. */
            job_id: string;
            /** @description Why there is none; `null` unless it failed. */
            problem: string | null;
            /** @description Its state. */
            state: components["schemas"]["BackupState"];
            /** @description The folder, or `s3://BUCKET/PREFIX`. */
            to: string;
        };
        /** @enum {string} */
        BackupState: "running" | "failed" | "done";
        /** @description Capacity and refill of a bucket. */
        BucketRule: {
            /**
             * Format: uint32
             * @description The most tokens that a bucket holds.
             */
            burst: number;
            /**
             * Format: uint32
             * @description Whole tokens a second.
             */
            refill_per_second: number;
        };
        /**
         * @description What a ticket is about.
         * @enum {string}
         */
        Category: "connection" | "delivery" | "webhooks" | "billing" | "other";
        ChannelCounts: {
            /**
             * Format: uint
             * @description How many are connected.
             */
            connected: number;
            /**
             * Format: uint
             * @description How many there are in total.
             */
            total: number;
        };
        ClusterCheck: {
            /** @description Whether any one node can be lost now without an outage; never, with fewer than three nodes. */
            can_lose_a_node: boolean;
            /** @description Each part, and its condition. */
            checks: components["schemas"]["Finding"][];
            /** @description The status. */
            status: components["schemas"]["Condition"];
        };
        ClusterFormat: {
            /** @description What the nodes may store and send; a release understands all formats up to a highest one. */
            format: components["schemas"]["Format"];
            /** @description The highest that all members understand; `null` while one does not answer. */
            highest: components["schemas"]["Format"] | null;
            /** @description The nodes. */
            nodes: components["schemas"]["NodeRelease"][];
        };
        ClusterStatus: {
            /** @description What that token may do. */
            access: components["schemas"]["Access"];
            /** @description By status, of the shards that have an owner. */
            channels: {
                [key: string]: number;
            };
            /** @description `null` until the cluster is formed. */
            cluster_id: string | null;
            /**
             * Format: uint
             * @description How many accounts there are.
             */
            customers: number;
            /** @description What is wrong; `GET /v1/admin/check` also lists what is right. */
            findings: components["schemas"]["Finding"][];
            /** @description What the nodes may store and send; see `GET /v1/admin/format`. */
            format: components["schemas"]["Format"];
            /**
             * Format: date-time
             * @description When the cluster was formed.
             */
            formed_at: string | null;
            /**
             * Format: uint64
             * @description The node that answers.
             */
            node_id: number;
            /** @description The nodes. */
            nodes: components["schemas"]["ReadyOfAll"];
            /** @description Who asks: the name of the token, or `null` for the one that all operators share. */
            operator: string | null;
            /** @description The nodes that answer, by the release that they run. */
            releases: {
                [key: string]: number[];
            };
            /** @description The shards. */
            shards: components["schemas"]["ReadyOfAll"];
            /** @description The status. */
            status: components["schemas"]["Condition"];
            /** @description Of the release. */
            version: string;
            /**
             * Format: uint
             * @description How many webhook endpoints there are.
             */
            webhook_endpoints: number;
        };
        /**
         * @description The condition of the whole cluster.
         * @enum {string}
         */
        Condition: "operational" | "degraded" | "outage";
        /** @description A ticket as its reader sees it, with its messages. */
        Conversation: {
            /** @description What the ticket is about. */
            category: components["schemas"]["Category"];
            /**
             * Format: uuid
             * @description The channel.
             */
            channel_id: string | null;
            /**
             * Format: date-time
             * @description When it was created.
             */
            created_at: string;
            /** @description Who created it. */
            created_by: string;
            /** @description The account that it belongs to. */
            customer: components["schemas"]["CustomerView"];
            /**
             * Format: uuid
             * @description Its id.
             */
            id: string;
            /** @description The messages, the first one first. */
            messages: components["schemas"]["MessageView"][];
            /**
             * Format: uint32
             * @description Its number.
             */
            number: number;
            /** @description The priority. */
            priority: components["schemas"]["Priority"];
            /** @description The `X-Request-Id` of the call. */
            request_id: string | null;
            /** @description The status. */
            status: components["schemas"]["TicketStatus"];
            /** @description What it is about. */
            subject: string;
            /**
             * Format: date-time
             * @description When it last changed.
             */
            updated_at: string;
        };
        /** @description The account, and the buckets that it has at present. */
        CreatedCustomer: {
            /** @description The first key of the account; its secret is shown once. */
            api_key: components["schemas"]["IssuedKey"];
            /** @description Its channels. */
            channels: components["schemas"]["ChannelCounts"];
            /**
             * Format: date-time
             * @description When it was created.
             */
            created_at: string;
            /** @description The e-mail address. */
            email: string | null;
            /**
             * Format: uuid
             * @description Its id.
             */
            id: string;
            /** @description Its rate limits. */
            limits: components["schemas"]["CustomerLimits"];
            /** @description Its name. */
            name: string;
            /** @description What the account may use. */
            plan: components["schemas"]["Plan"];
            /** @description What of the plan's quotas is in use; shown to the account itself. */
            storage?: components["schemas"]["Storage"] | null;
            /** @description By its name in the IANA database, such as `Europe/Berlin`. */
            timezone: string;
        };
        /** @description The account, and the buckets that it has at present. */
        Customer: {
            /** @description Its channels. */
            channels: components["schemas"]["ChannelCounts"];
            /**
             * Format: date-time
             * @description When it was created.
             */
            created_at: string;
            /** @description The e-mail address. */
            email: string | null;
            /**
             * Format: uuid
             * @description Its id.
             */
            id: string;
            /** @description Its rate limits. */
            limits: components["schemas"]["CustomerLimits"];
            /** @description Its name. */
            name: string;
            /** @description What the account may use. */
            plan: components["schemas"]["Plan"];
            /** @description What of the plan's quotas is in use; shown to the account itself. */
            storage?: components["schemas"]["Storage"] | null;
            /** @description By its name in the IANA database, such as `Europe/Berlin`. */
            timezone: string;
        };
        CustomerLimits: {
            /** @description The rate limit of each channel. */
            channel: components["schemas"]["BucketRule"];
            /** @description The rate limit of the account. */
            customer: components["schemas"]["BucketRule"];
            /** @description How much the account may store. */
            storage: components["schemas"]["StorageLimits"];
        };
        CustomerView: {
            /**
             * Format: uuid
             * @description Its id.
             */
            id: string;
            /** @description `null` when the account's data is removed. */
            name: string | null;
        };
        DataKeyRotation: {
            /**
             * Format: date-time
             * @description When it began; null while it waits.
             */
            began_at: string;
            /**
             * Format: date-time
             * @description When it ended; null while it has not.
             */
            ended_at: string | null;
            /**
             * Format: uint
             * @description Customers that have a former data key.
             */
            former_keys: number;
            /** @description Shards in which something may be sealed with one. */
            shards_left: number[];
            /**
             * @description `changing`: customers get other keys. `resealing`: what the former ones have sealed is sealed anew. `keeping`: nothing is
             *     sealed with them, and they are kept for a while. `ended`: they are dropped.
             * @enum {string}
             */
            state: "changing" | "resealing" | "keeping" | "ended";
        };
        /**
         * @description Which way a message went.
         * @enum {string}
         */
        Direction: "inbound" | "outbound";
        /**
         * @description Why the gateway itself disabled an endpoint.
         * @enum {string}
         */
        DisabledReason: "gone" | "failing";
        Error: {
            /**
             * ErrorBody
             * @description What went wrong.
             */
            error: {
                /**
                 * @description A stable code, for programs. The list is open: have a default branch.
                 * @example auth_missing
                 * @example auth_malformed
                 * @example auth_invalid
                 * @example auth_expired
                 * @example auth_revoked
                 * @example auth_no_email
                 * @example auth_backend_unavailable
                 * @example channel_not_found
                 * @example channel_access_denied
                 * @example channel_scoped_key
                 * @example insufficient_scope
                 * @example channel_unavailable
                 * @example invalid_lifecycle_transition
                 * @example pair_code_unavailable
                 * @example pair_code_failed
                 * @example no_qr
                 * @example not_disabled
                 * @example concurrent_modification
                 * @example not_connected
                 * @example plan_channel_limit
                 * @example plan_limit
                 * @example rate_limited
                 * @example worker_at_capacity
                 * @example storage_full
                 * @example trial_expired
                 * @example payment_overdue
                 * @example sse_connection_limit
                 * @example webhook_endpoint_not_found
                 * @example media_gone
                 * @example media_token_expired
                 * @example media_token_tampered
                 * @example media_token_malformed
                 * @example media_too_large
                 * @example media_fetch_failed
                 * @example media_fetch_blocked
                 * @example message_not_found
                 * @example chat_not_found
                 * @example contact_not_found
                 * @example invalid_request
                 * @example not_found
                 * @example bad_request
                 * @example no_op
                 * @example other
                 * @example internal_error
                 * @example undeliverable_recipient
                 * @example not_implemented
                 * @example payload_too_large
                 * @example uri_too_long
                 * @example headers_too_large
                 * @example outcome_unknown
                 */
                code: string;
                /** @description Facts that go with the code. With `invalid_request`, a list of issues with `path`, `code` and `message`. */
                details?: unknown;
                /** @description An explanation for people; it may change. */
                message: string;
            };
            /** @description The `X-Request-Id` of the call. */
            request_id: string;
        };
        Figures: {
            /** @description The nodes. */
            nodes: components["schemas"]["NodeFigures"][];
            /**
             * Format: uint32
             * @description The length of a step.
             */
            step_seconds: number;
        };
        /** @description A node over one step. */
        FiguresPoint: {
            /**
             * Format: date-time
             * @description When the step began.
             */
            at: string;
            /**
             * Format: uint64
             * @description Attempts to call webhook receivers.
             */
            attempts: number;
            /**
             * Format: uint64
             * @description Those of them that did not succeed.
             */
            attempts_failed: number;
            /**
             * Format: uint64
             * @description Channels that were connected at the end of the step.
             */
            connected: number;
            /**
             * Format: double
             * @description The 99th percentile of the syncs of its log; `null` when nothing was written.
             */
            fsync_p99_ms: number | null;
            /**
             * Format: uint64
             * @description Messages that were received.
             */
            inbound: number;
            /**
             * Format: uint64
             * @description Shards that it owned at the end of the step.
             */
            leads: number;
            /**
             * Format: uint64
             * @description Memory of the process at the end of the step.
             */
            rss_bytes: number;
            /**
             * Format: uint64
             * @description From the acceptance of a send to that by the network: the approximate median, in milliseconds; `null` without a send.
             */
            send_p50_ms: number | null;
            /**
             * Format: uint64
             * @description The 99th percentile of the same.
             */
            send_p99_ms: number | null;
            /**
             * Format: uint64
             * @description Sends that the network accepted.
             */
            sends: number;
            /**
             * Format: uint64
             * @description Sends that ended in failure.
             */
            sends_failed: number;
        };
        /** @description What one check found. */
        Finding: {
            /**
             * @description What was checked.
             * @enum {string}
             */
            check: "nodes" | "shards" | "replicas" | "lose_a_node" | "leads" | "tasks" | "fsync" | "clock" | "disk" | "slots" | "connections" | "certificates" | "secrets" | "configuration";
            /** @description How severe it is. */
            level: components["schemas"]["Level"];
            /** @description An explanation, for people. */
            message: string;
            /**
             * Format: uint64
             * @description The node that it is about; `null` when it is about the cluster.
             */
            node_id: number | null;
            /** @description What to do; `null` when there is nothing to do. */
            remedy: string | null;
        };
        /**
         * Format: uint8
         * @description The version of what nodes store and send. Counts from 1.
         */
        Format: number;
        /**
         * @description The state of a Raft group.
         * @enum {string}
         */
        GroupState: "no_leader" | "ok" | "degraded";
        Health: {
            /**
             * Format: uint64
             * @description The node that answers.
             */
            node: number;
            /** @description The status. */
            status: string;
            /** @description Of the release. */
            version: string;
        };
        /** @description A key with its secret: shown once, in the response that creates it. */
        IssuedKey: {
            /**
             * Format: uuid
             * @description The channel that the key is bound to; null for all channels of the account.
             */
            channel_id: string | null;
            /**
             * Format: date-time
             * @description When it was created.
             */
            created_at: string;
            /** @description How it was created. */
            created_by: components["schemas"]["KeyOrigin"];
            /**
             * Format: uuid
             * @description The key that created it.
             */
            created_by_key_id: string | null;
            /**
             * Format: uuid
             * @description The account.
             */
            customer_id: string;
            /**
             * Format: date-time
             * @description When it expires.
             */
            expires_at: string | null;
            /**
             * Format: uuid
             * @description Its id.
             */
            id: string;
            /**
             * Format: date-time
             * @description When it was last used, within five minutes.
             */
            last_used_at: string | null;
            /** @description Its name. */
            name: string;
            /** @description The first 12 characters of the key, safe to show. */
            prefix: string;
            /**
             * Format: date-time
             * @description When it was revoked.
             */
            revoked_at: string | null;
            /** @description What it grants, such as `messages.read`; an empty list grants everything. */
            scopes: string[];
            /** @description The whole key. It is shown once. */
            secret: string;
            /**
             * @description The status.
             * @enum {string}
             */
            status: "active" | "expired" | "revoked";
        };
        JoinToken: {
            /**
             * Format: date-time
             * @description When it expires.
             */
            expires_at: string;
            /** @description Shown once. */
            token: string;
        };
        /**
         * @description How an API key was created: with the account, by another key, by a member, or with its channel.
         * @enum {string}
         */
        KeyOrigin: "signup" | "api_key" | "dashboard" | "channel_create";
        Layout: {
            /** @description The last change; `null` when there was none since the cluster was created. */
            change: components["schemas"]["LayoutChange"] | null;
            /** @description The shards. */
            shards: components["schemas"]["PlacedShard"][];
        };
        LayoutChange: {
            /**
             * Format: uint16
             * @description How many moves run at a time.
             */
            at_once: number;
            /** @description Made by the cluster itself: to restore the number of replicas, or because a node had much more load than others. */
            automatic: boolean;
            /**
             * Format: date-time
             * @description When it began; null while it waits.
             */
            began_at: string;
            /**
             * Format: uint
             * @description Moves that were given up.
             */
            cancelled: number;
            /**
             * Format: uint
             * @description Moves that are done.
             */
            done: number;
            /**
             * Format: date-time
             * @description When it ended; null while it has not.
             */
            ended_at: string | null;
            /** @description What moves, shard by shard. */
            moves: components["schemas"]["Move"][];
            /**
             * Format: uint64
             * @description Its number.
             */
            number: number;
            /**
             * Format: uint
             * @description Moves that run.
             */
            running: number;
            /**
             * @description Its state.
             * @enum {string}
             */
            state: "running" | "done" | "cancelled";
            /**
             * Format: uint
             * @description How many there are in total.
             */
            total: number;
            /**
             * Format: uint
             * @description Moves that wait.
             */
            waiting: number;
        };
        /** @description The cost of moves. */
        LayoutCost: {
            /**
             * Format: uint
             * @description Its channels.
             */
            channels: number;
            /**
             * Format: uint
             * @description Shards whose leadership moves, and the channels that log in again because of it.
             */
            leads: number;
            /**
             * Format: uint
             * @description Replicas that are copied.
             */
            replicas: number;
        };
        LayoutPlan: {
            /** @description What the moves would cost. */
            cost: components["schemas"]["LayoutCost"];
            /** @description What moves, shard by shard. */
            moves: components["schemas"]["Move"][];
            /** @description The load of the nodes now, and after the moves. */
            nodes: components["schemas"]["NodeLoad"][];
            /**
             * Format: uint64
             * @description For `apply`: the number of the change that this plan would begin.
             */
            number: number;
        };
        /** @enum {string} */
        Level: "ok" | "failing" | "warning";
        MasterKeyExchange: {
            /**
             * Format: date-time
             * @description When it began; null while it waits.
             */
            began_at: string;
            /**
             * Format: date-time
             * @description When the last data key was sealed anew; `null` until then.
             */
            ended_at: string | null;
            /** @description The key that is replaced. */
            from: string;
            /** @description Whether nothing is sealed under the former key any more. */
            old_key_may_go: boolean;
            /**
             * Format: date-time
             * @description Until then deliveries are signed with the former default secrets too, by nodes that still have the key that goes.
             */
            signs_with_both_until: string;
        };
        /** @description Why a message failed. */
        MessageError: {
            /** @description A stable code, for programs. */
            code: string;
            /** @description An explanation, for people. */
            message: string;
        };
        /**
         * @description The status of a stored message; an outbound one only moves forward.
         * @enum {string}
         */
        MessageStatus: "queued" | "sent" | "delivered" | "read" | "played" | "failed" | "received";
        MessageTrace: {
            /**
             * Format: uuid
             * @description The channel.
             */
            channel_id: string;
            /** @description The channel's name. */
            channel_name: string;
            /** @description The caller's own reference, which is returned in the response and in `message.sent`. */
            client_ref: string | null;
            /** @description The value of `X-Gateway-Correlation-Id`. */
            correlation_id: string;
            /**
             * Format: uuid
             * @description The account.
             */
            customer_id: string;
            /** @description Whether it was received or sent. */
            direction: components["schemas"]["Direction"];
            /**
             * Format: uint64
             * @description The term of the owner's leadership, which fences what an earlier one does.
             */
            epoch: number;
            /** @description What went wrong. */
            error: components["schemas"]["MessageError"] | null;
            /** @description Who wrote it: the phone address when it is known, otherwise the linked-device address. */
            from: string;
            /** @description A message id of the network: `3EB0` and 36 upper-case hex characters when minted here. */
            message_id: string;
            /**
             * Format: uint64
             * @description The owner now, and its epoch.
             */
            node_id: number;
            /** @description The id of the request that sent it; the log of the node that received the request has it. */
            request_id: string | null;
            /**
             * Format: uint16
             * @description The shard that holds the channel.
             */
            shard: number;
            /** @description The status. */
            status: components["schemas"]["MessageStatus"];
            /** @description What happened, the first thing first. */
            steps: components["schemas"]["TraceStep"][];
            /** @description The recipient: an address, or the digits of a number. */
            to: string;
            /** @description What kind it is. */
            type: string;
        };
        MessageView: {
            /** @description Who wrote it. */
            author: components["schemas"]["Author"];
            /**
             * Format: date-time
             * @description When it was created.
             */
            created_at: string;
            /**
             * Format: uuid
             * @description Its id.
             */
            id: string;
            /** @description What was written. */
            message: string;
        };
        Move: {
            /**
             * Format: date-time
             * @description When it began; null while it waits.
             */
            began_at: string | null;
            /**
             * Format: uint64
             * @description While new replicas are created: how many bytes they have of the shard's state on its leader's disk, without media. An
             *     estimate; `null` when none is created, and when nothing is on the disk yet.
             */
            copied_bytes: number | null;
            /**
             * Format: date-time
             * @description When it ended; null while it has not.
             */
            ended_at: string | null;
            /** @description The replicas before. */
            from: number[];
            /**
             * Format: uint64
             * @description The node that leads.
             */
            leader: number;
            /**
             * Format: uint16
             * @description The shard that holds the channel.
             */
            shard: number;
            /** @description Its state. */
            state: components["schemas"]["MoveState"];
            /** @description The replicas after. */
            to: number[];
            /**
             * Format: uint64
             * @description The bytes that they will have in total.
             */
            to_copy_bytes: number | null;
        };
        /** @description Where a shard was led, and will be. */
        Moved: {
            /**
             * Format: uint64
             * @description The node that led it.
             */
            from: number;
            /**
             * Format: uint16
             * @description The shard that holds the channel.
             */
            shard: number;
            /**
             * Format: uint64
             * @description The node that is to lead it.
             */
            to: number;
        };
        /** @enum {string} */
        MoveState: "waiting" | "running" | "done" | "cancelled";
        Node: {
            /** @description The address at which its peers reach it. */
            address: string;
            /**
             * Format: uint64
             * @description Channels that it holds connected.
             */
            channels_connected: number | null;
            /**
             * Format: int64
             * @description How far its clock is ahead of that of the node that answers; negative when it is behind.
             */
            clock_ahead_ms: number | null;
            /**
             * Format: uint64
             * @description Bytes that are free on the disk of its data.
             */
            disk_free_bytes: number | null;
            /**
             * Format: uint64
             * @description Bytes of that disk.
             */
            disk_total_bytes: number | null;
            /**
             * Format: double
             * @description How long syncs of its log took in the last minute, in milliseconds.
             */
            fsync_p50_ms: number | null;
            /**
             * Format: double
             * @description 99 of 100 syncs of its log took no longer, in milliseconds.
             */
            fsync_p99_ms: number | null;
            /**
             * Format: uint64
             * @description Its id.
             */
            id: number;
            /**
             * Format: uint
             * @description Shards that should be led from here, and those that are.
             */
            leads: number;
            /**
             * Format: uint64
             * @description Of the Raft log, and of the state that was made of it.
             */
            log_bytes: number | null;
            /** @description Where it is in its life cycle; a node that is `leaving` is removed as soon as nothing is placed on it. */
            member: components["schemas"]["NodeState"];
            /** @description The shards that it leads. */
            owns: number[] | null;
            /**
             * Format: date-time
             * @description When it first joined.
             */
            registered_at: string;
            /**
             * Format: uint
             * @description Shards with a replica here.
             */
            replicas: number;
            /**
             * Format: uint64
             * @description Memory that it holds.
             */
            rss_bytes: number | null;
            /** @description Whether it serves callers, as its own `/readyz` says. */
            serves: boolean;
            /** @description Why it did not answer. */
            silence: string | null;
            /**
             * Format: uint32
             * @description How many sessions of channels it takes at most (`node.max_channels`).
             */
            slots: number;
            /**
             * Format: date-time
             * @description When it began.
             */
            started_at: string | null;
            /**
             * @description Its state.
             * @enum {string}
             */
            state: "ready" | "draining" | "down";
            /**
             * Format: uint64
             * @description Bytes of the state that is made of the Raft log.
             */
            state_bytes: number | null;
            /** @description The highest format that its release understands. */
            understands: components["schemas"]["Format"] | null;
            /**
             * Format: uint64
             * @description Slots that are used.
             */
            used: number | null;
            /** @description `null` while the node does not answer, like everything that only the node itself knows. */
            version: string | null;
            /** @description Whether it votes in the directory. */
            votes: boolean;
            /**
             * Format: uint32
             * @description Its share of the shards, relative to the other nodes.
             */
            weight: number;
            /** @description Where it stands; replicas are spread over zones. */
            zone: string | null;
        };
        NodeAuthority: {
            /**
             * Format: date-time
             * @description When it began; null while it waits.
             */
            began_at: string | null;
            /** @description The SHA-256 of its certificate. */
            id: string;
            /**
             * Format: date-time
             * @description When it took the place of another; `null` when it is the first.
             */
            rotated_at: string | null;
            /**
             * @description `settled`: no rotation is under way. `wanted`: another one is to be made. `announced`: nodes come to trust it.
             *     `overlapping`: it signs, and nodes that show certificates of the former are trusted, too.
             * @enum {string}
             */
            state: "settled" | "wanted" | "announced" | "overlapping";
            /** @description The nodes that the rotation waits for: they do not answer, or are not as far. */
            waits_for: number[];
        };
        NodeFigures: {
            /**
             * Format: uint64
             * @description The node.
             */
            node_id: number;
            /** @description The oldest first. */
            points: components["schemas"]["FiguresPoint"][];
            /** @description Why it did not answer; `null` otherwise. */
            silence: string | null;
        };
        /**
         * @description A load counts the shards that a node should lead: 1 for a quiet one, more for a busy one by what it has had to do in the last
         *     minute.
         */
        NodeLoad: {
            /**
             * Format: uint
             * @description Shards that it should lead now.
             */
            leads: number;
            /**
             * Format: uint
             * @description Shards that it should lead once the moves are done.
             */
            leads_after: number;
            /**
             * Format: double
             * @description The load of the shards that it should lead now.
             */
            load: number;
            /**
             * Format: double
             * @description The load of those that it should lead then.
             */
            load_after: number;
            /**
             * Format: uint64
             * @description The node.
             */
            node_id: number;
            /**
             * Format: uint32
             * @description Its share of the shards, relative to the other nodes.
             */
            weight: number;
        };
        /** @description The release of a node. */
        NodeRelease: {
            /**
             * Format: uint64
             * @description Its id.
             */
            id: number;
            /** @description The highest format that it understands; `null` while it does not answer. */
            understands: components["schemas"]["Format"] | null;
            /** @description `null` while the node does not answer. */
            version: string | null;
        };
        /** @description A node that leaves, or would. */
        NodeRemoval: {
            /** @description The address at which its peers reach it. */
            address: string;
            /**
             * Format: uint64
             * @description Channels that it holds connected.
             */
            channels_connected: number | null;
            /**
             * Format: int64
             * @description How far its clock is ahead of that of the node that answers; negative when it is behind.
             */
            clock_ahead_ms: number | null;
            /**
             * Format: uint64
             * @description Bytes that are free on the disk of its data.
             */
            disk_free_bytes: number | null;
            /**
             * Format: uint64
             * @description Bytes of that disk.
             */
            disk_total_bytes: number | null;
            /**
             * Format: double
             * @description How long syncs of its log took in the last minute, in milliseconds.
             */
            fsync_p50_ms: number | null;
            /**
             * Format: double
             * @description 99 of 100 syncs of its log took no longer, in milliseconds.
             */
            fsync_p99_ms: number | null;
            /**
             * Format: uint64
             * @description Its id.
             */
            id: number;
            /**
             * Format: uint
             * @description Shards that should be led from here, and those that are.
             */
            leads: number;
            /** @description The nodes that remain once it has left. */
            left: components["schemas"]["NodesLeft"];
            /**
             * Format: uint64
             * @description Of the Raft log, and of the state that was made of it.
             */
            log_bytes: number | null;
            /** @description Where it is in its life cycle; a node that is `leaving` is removed as soon as nothing is placed on it. */
            member: components["schemas"]["NodeState"];
            /** @description The shards that it leads. */
            owns: number[] | null;
            /**
             * Format: date-time
             * @description When it first joined.
             */
            registered_at: string;
            /**
             * Format: uint
             * @description Shards with a replica here.
             */
            replicas: number;
            /**
             * Format: uint64
             * @description Memory that it holds.
             */
            rss_bytes: number | null;
            /** @description Whether it serves callers, as its own `/readyz` says. */
            serves: boolean;
            /** @description Why it did not answer. */
            silence: string | null;
            /**
             * Format: uint32
             * @description How many sessions of channels it takes at most (`node.max_channels`).
             */
            slots: number;
            /**
             * Format: date-time
             * @description When it began.
             */
            started_at: string | null;
            /**
             * @description Its state.
             * @enum {string}
             */
            state: "ready" | "draining" | "down";
            /**
             * Format: uint64
             * @description Bytes of the state that is made of the Raft log.
             */
            state_bytes: number | null;
            /** @description The highest format that its release understands. */
            understands: components["schemas"]["Format"] | null;
            /**
             * Format: uint64
             * @description Slots that are used.
             */
            used: number | null;
            /** @description `null` while the node does not answer, like everything that only the node itself knows. */
            version: string | null;
            /** @description Whether it votes in the directory. */
            votes: boolean;
            /**
             * Format: uint32
             * @description Its share of the shards, relative to the other nodes.
             */
            weight: number;
            /** @description Where it stands; replicas are spread over zones. */
            zone: string | null;
        };
        NodeSecrets: {
            /** @description Why it did not answer. */
            error: string | null;
            /** @description The master keys that it was given, the one for the future first; `null` when it did not say. */
            master_keys: string[] | null;
            /**
             * Format: uint64
             * @description The node.
             */
            node_id: number;
        };
        /** @description The nodes that remain when one leaves. */
        NodesLeft: {
            /** @description Those of them that do not answer now. */
            away: number[];
            /** @description Whether any one node could be lost then without an outage. */
            can_lose_a_node: boolean;
            /**
             * Format: uint
             * @description The nodes.
             */
            nodes: number;
        };
        /**
         * @description Where a node is in its life cycle.
         * @enum {string}
         */
        NodeState: "active" | "joining" | "draining" | "leaving";
        /** @description An entry, and the account whose log it is in. */
        OwnedEntry: {
            /** @description What was done, such as `key.issued`. */
            action: string;
            /** @description Who did it. */
            actor: components["schemas"]["AuditActor"];
            /**
             * Format: date-time
             * @description When it was created.
             */
            created_at: string;
            /**
             * Format: uuid
             * @description `null` when no customer can be named.
             */
            customer_id: string | null;
            /** @description Facts that go with it. */
            details?: {
                [key: string]: string;
            };
            /**
             * Format: uuid
             * @description Its id.
             */
            id: string;
            /** @description The client's address. */
            ip: string | null;
            /**
             * @description How it ended.
             * @enum {string}
             */
            outcome: "success" | "failure";
            /** @description The `X-Request-Id` of the call. */
            request_id: string | null;
            /** @description What it was done to. */
            target: components["schemas"]["AuditTarget"] | null;
            /** @description The name that the client gives itself. */
            user_agent: string | null;
        };
        /** @description A key, and the account that it belongs to. */
        OwnedKey: {
            /**
             * Format: uuid
             * @description The channel that the key is bound to; null for all channels of the account.
             */
            channel_id: string | null;
            /**
             * Format: date-time
             * @description When it was created.
             */
            created_at: string;
            /** @description How it was created. */
            created_by: components["schemas"]["KeyOrigin"];
            /**
             * Format: uuid
             * @description The key that created it.
             */
            created_by_key_id: string | null;
            /**
             * Format: uuid
             * @description The account.
             */
            customer_id: string;
            /** @description `null` when the account's data is removed. */
            customer_name: string | null;
            /**
             * Format: date-time
             * @description When it expires.
             */
            expires_at: string | null;
            /**
             * Format: uuid
             * @description Its id.
             */
            id: string;
            /**
             * Format: date-time
             * @description When it was last used, within five minutes.
             */
            last_used_at: string | null;
            /** @description Its name. */
            name: string;
            /** @description The first 12 characters of the key, safe to show. */
            prefix: string;
            /**
             * Format: date-time
             * @description When it was revoked.
             */
            revoked_at: string | null;
            /** @description What it grants, such as `messages.read`; an empty list grants everything. */
            scopes: string[];
            /**
             * @description The status.
             * @enum {string}
             */
            status: "active" | "expired" | "revoked";
        };
        /** @description A ticket, its account, and the request that it is about. */
        OwnedTicket: {
            /** @description What the ticket is about. */
            category: components["schemas"]["Category"];
            /**
             * Format: uuid
             * @description The channel.
             */
            channel_id: string | null;
            /**
             * Format: date-time
             * @description When it was created.
             */
            created_at: string;
            /** @description Who created it. */
            created_by: string;
            /** @description The account that it belongs to. */
            customer: components["schemas"]["CustomerView"];
            /**
             * Format: uuid
             * @description Its id.
             */
            id: string;
            /**
             * Format: uint32
             * @description Its number.
             */
            number: number;
            /** @description The priority. */
            priority: components["schemas"]["Priority"];
            /** @description The `X-Request-Id` of the call. */
            request_id: string | null;
            /** @description The status. */
            status: components["schemas"]["TicketStatus"];
            /** @description What it is about. */
            subject: string;
            /**
             * Format: date-time
             * @description When it last changed.
             */
            updated_at: string;
        };
        /** @description A channel; all fields but `status_reason` always present. */
        PlacedChannel: {
            /**
             * Format: date-time
             * @description When it was created.
             */
            created_at: string;
            /**
             * Format: uuid
             * @description The account.
             */
            customer_id: string;
            /**
             * Format: uint64
             * @description The term of the owner's leadership, which fences what an earlier one does.
             */
            epoch: number | null;
            /**
             * Format: uuid
             * @description Its id.
             */
            id: string;
            /**
             * Format: date-time
             * @description When it was last seen online.
             */
            last_seen_at: string | null;
            /** @description Free-form keys and values, at most 4 KiB of JSON. */
            metadata: {
                [key: string]: unknown;
            };
            /** @description Its name. */
            name: string;
            /**
             * Format: uint64
             * @description The owner; `null` for a channel that nobody has asked about.
             */
            node_id: number | null;
            /** @description The phone number, as digits. */
            phone_number: string | null;
            /** @description The nodes that keep its state. */
            replicas: number[];
            /**
             * Format: uint16
             * @description The shard that holds the channel.
             */
            shard: number | null;
            /** @description The status. */
            status: components["schemas"]["Status"];
            /** @description Why it has its status, once something has happened to it; in lists that are asked for it with `reasons`, and for operators. */
            status_reason?: components["schemas"]["Reason"] | null;
            /**
             * Format: date-time
             * @description When it last changed.
             */
            updated_at: string;
        };
        PlacedShard: {
            /**
             * Format: uint
             * @description Its channels.
             */
            channels: number;
            /**
             * Format: uint64
             * @description The replica that should lead.
             */
            leader: number;
            /** @description The nodes that hold it. */
            replicas: number[];
            /** @description Whether exactly these replicas vote. */
            settled: boolean;
            /**
             * Format: uint16
             * @description The shard that holds the channel.
             */
            shard: number;
        };
        Plan: {
            /**
             * Format: uint32
             * @description The maximum number of channels; null for no limit.
             */
            channel_limit: number | null;
            /** @description Its name. */
            name: string;
            /**
             * Format: date-time
             * @description Since when a payment is overdue.
             */
            overdue_since: string | null;
            /**
             * @description The status.
             * @enum {string}
             */
            status: "self_hosted" | "active" | "trial" | "past_due" | "cancelled";
            /**
             * Format: date-time
             * @description When the trial ends.
             */
            trial_ends_at: string | null;
        };
        /** @enum {string} */
        Priority: "low" | "normal" | "urgent";
        Quota: {
            /**
             * Format: uint64
             * @description The most that the plan allows.
             */
            limit: number;
            /**
             * Format: uint64
             * @description How much is in use; null where it is counted by channel.
             */
            used: number | null;
        };
        Readiness: {
            /** @description Each part, and its condition. */
            checks: {
                [key: string]: string;
            };
            /**
             * @description The status.
             * @enum {string}
             */
            status: "ready" | "not_ready";
        };
        ReadyOfAll: {
            /**
             * Format: uint
             * @description How many are ready.
             */
            ready: number;
            /**
             * Format: uint
             * @description How many there are in total.
             */
            total: number;
        };
        /**
         * @description The `reason` of a `channel.status` event.
         * @enum {string}
         */
        Reason: "created" | "qr_requested" | "connect_requested" | "paired" | "login_ok" | "network" | "worker_lost" | "rebalance" | "qr_timeout" | "pairing_refused" | "reconnect_budget" | "no_worker" | "logout" | "session_invalidated" | "kicked_other_device" | "stream_replaced_loop" | "client_outdated" | "auth_state" | "crash_loop" | "user" | "admin" | "banned" | "restored";
        Replica: {
            /**
             * Format: uint64
             * @description The last entry of the log whose effects are written there.
             */
            applied: number | null;
            /**
             * Format: uint64
             * @description Entries that are still to be applied there.
             */
            lag: number | null;
            /**
             * Format: uint64
             * @description The node.
             */
            node_id: number;
            /**
             * @description A learner counts for no majority.
             * @enum {string}
             */
            role: "voter" | "learner";
            /**
             * Format: uint64
             * @description While the leader sends it a snapshot of the state: how much it has sent.
             */
            sent_bytes: number | null;
            /** @description Its state. */
            state: components["schemas"]["ReplicaState"];
        };
        ReplicaHash: {
            /**
             * Format: uint64
             * @description The last entry of the log whose effects are written.
             */
            applied: number;
            /**
             * Format: uint64
             * @description The node.
             */
            node_id: number;
            /**
             * Format: uint16
             * @description 0 is the directory, which all nodes share.
             */
            shard: number;
            /** @description Of all rows at that entry, in hexadecimal digits. */
            state_hash: string;
        };
        /**
         * @description The state of a replica.
         * @enum {string}
         */
        ReplicaState: "ok" | "behind" | "stopped" | "silent";
        /**
         * @description What a member may do.
         *
         *     | role | scopes | account |
         *     |---|---|---|
         *     | `viewer` | every `.read` | reads |
         *     | `member` | everything but `keys.write` | reads |
         *     | `admin` | everything | changes it |
         *     | `owner` | everything | changes and deletes it |
         * @enum {string}
         */
        Role: "viewer" | "member" | "admin" | "owner";
        Secrets: {
            /** @description The authority by which nodes know each other; `null` while the cluster does not have its key. */
            authority: components["schemas"]["NodeAuthority"] | null;
            /** @description The last rotation of the customers' data keys; `null` when there was none. */
            data_key_rotation: components["schemas"]["DataKeyRotation"] | null;
            /**
             * Format: uint
             * @description Data keys: one of each customer, and those of the deployment and its authority.
             */
            data_keys: number;
            /** @description The last exchange; `null` when there was none. */
            exchange: components["schemas"]["MasterKeyExchange"] | null;
            /** @description The master key that everything is to be sealed under. */
            master_key: string;
            /** @description The nodes. */
            nodes: components["schemas"]["NodeSecrets"][];
            /**
             * Format: uint
             * @description How many are still to be sealed again.
             */
            remaining: number;
            /** @description How many of them are sealed under which master key. */
            sealed_under: {
                [key: string]: number;
            };
            /** @description The key that signs session tokens. */
            session_key: components["schemas"]["SessionKey"];
            /**
             * @description `settled`: nothing is sealed under another. `waiting`: a node was given another, and the exchange has not begun.
             * @enum {string}
             */
            state: "settled" | "waiting" | "rewrapping";
        };
        SessionKey: {
            /**
             * Format: date-time
             * @description Until when tokens of the former key are accepted; `null` when there is none.
             */
            former_until: string | null;
            /**
             * Format: date-time
             * @description When it was rotated last; `null` when it never was.
             */
            rotated_at: string | null;
        };
        Shard: {
            /**
             * Format: uint
             * @description How many of its replicas can be lost now.
             */
            can_lose: number;
            /**
             * Format: uint
             * @description Live channels.
             */
            channels: number;
            /**
             * Format: uint16
             * @description Its id.
             */
            id: number;
            /**
             * @description What kind it is.
             * @enum {string}
             */
            kind: "directory" | "shard";
            /**
             * Format: uint64
             * @description The node that leads.
             */
            leader: number | null;
            /** @description The nodes that hold it. */
            replicas: components["schemas"]["Replica"][];
            /** @description Whether its leader cannot commit what it has proposed, as that node reports. */
            stalled: boolean;
            /** @description Its state. */
            state: components["schemas"]["GroupState"];
            /**
             * Format: uint64
             * @description The epoch of its owner.
             */
            term: number;
            /**
             * Format: uint64
             * @description The node that should lead; `null` for the directory, which any node may lead.
             */
            wanted_leader: number | null;
        };
        /**
         * @description The eleven statuses of a channel.
         * @enum {string}
         */
        Status: "pending" | "qr" | "connecting" | "reconnecting" | "connected" | "disconnected" | "logged_out" | "stopped_by_user" | "disabled_by_admin" | "error" | "failed";
        /** @description The quotas of the plan. */
        Storage: {
            /** @description Webhook endpoints. */
            endpoints: components["schemas"]["Quota"];
            /** @description API keys that are not revoked. */
            keys: components["schemas"]["Quota"];
            /** @description Labels of each channel. */
            labels: components["schemas"]["Quota"];
            /** @description Bytes of media that are kept. */
            media_bytes: components["schemas"]["Quota"];
            /** @description Approximate bytes of messages and webhook deliveries on disk. */
            message_bytes: components["schemas"]["Quota"];
            /** @description Tickets that are neither solved nor closed. */
            tickets_open: components["schemas"]["Quota"];
        };
        /** @description How much the plan allows the account to store. */
        StorageLimits: {
            /**
             * Format: uint64
             * @description Webhook endpoints.
             */
            endpoints: number;
            /**
             * Format: uint64
             * @description API keys that are not revoked.
             */
            keys: number;
            /**
             * Format: uint64
             * @description Labels of one channel.
             */
            labels: number;
            /**
             * Format: uint64
             * @description Bytes of media that are kept.
             */
            media_bytes: number;
            /**
             * Format: uint64
             * @description Approximate bytes of messages and webhook deliveries on disk.
             */
            message_bytes: number;
            /**
             * Format: uint64
             * @description Tickets that are neither solved nor closed.
             */
            tickets_open: number;
        };
        StuckEndpoint: {
            /**
             * Format: uuid
             * @description The account.
             */
            customer_id: string;
            /** @description `null` when the account's data is removed. */
            customer_name: string | null;
            /** @description Why the gateway itself switched it off. */
            disabled_reason: components["schemas"]["DisabledReason"] | null;
            /**
             * Format: uuid
             * @description The webhook endpoint.
             */
            endpoint_id: string;
            /**
             * Format: date-time
             * @description Since when no delivery has succeeded.
             */
            failing_since: string | null;
            /** @description How the last attempt at the oldest of them failed; `null` before the first one, and beyond the first fifty rows. */
            last_error: string | null;
            /**
             * Format: date-time
             * @description When a delivery last succeeded.
             */
            last_success_at: string | null;
            /**
             * Format: date-time
             * @description When it is attempted next.
             */
            next_attempt_at: string | null;
            /**
             * Format: date-time
             * @description When the oldest of them was made, and when the next attempt is due.
             */
            oldest: string | null;
            /** @description Whether there may be more than were counted. */
            or_more: boolean;
            /**
             * @description `disabled`: no attempts are made. `failing`: attempts fail. `slow`: attempts succeed, but deliveries wait.
             * @enum {string}
             */
            state: "disabled" | "failing" | "slow";
            /** @description The URL. */
            url: string;
            /**
             * Format: uint
             * @description Deliveries that wait for an attempt; `or_more` when they were too many to count.
             */
            waiting: number;
        };
        /**
         * @description Whose turn it is.
         * @enum {string}
         */
        TicketStatus: "open" | "waiting" | "solved" | "closed";
        /** @description Something that happened. */
        TimelineEntry: {
            /** @description As in the audit log. */
            action: string;
            /** @description Who did it; type `system` marks what the cluster itself observed, with the number of the node that did. */
            actor: components["schemas"]["AuditActor"];
            /**
             * Format: date-time
             * @description When it happened.
             */
            at: string;
            /**
             * @description Of shards that were taken over: `node`, `from`, `shards`, `channels`, `away_ms`, and as `reason` `lost` or
             *     `handed_over`. Of checks: `check`, `level`, `was`, `message`. Of nodes: `release`, `was`, `away_ms`.
             */
            details: {
                [key: string]: string;
            };
            /**
             * Format: uuid
             * @description Its id.
             */
            id: string;
            /**
             * @description What kind it is.
             * @enum {string}
             */
            kind: "node" | "lead" | "layout" | "check" | "backup" | "release" | "secrets";
            /**
             * Format: uint64
             * @description The node that it is about; `null` when it is about another thing.
             */
            node_id: number | null;
            /** @description A summary in words. */
            summary: string;
            /** @description What it was done to. */
            target: components["schemas"]["AuditTarget"] | null;
        };
        /** @description Something that happened to the message. */
        TraceStep: {
            /**
             * Format: date-time
             * @description When it happened.
             */
            at: string;
            /**
             * Format: uuid
             * @description The webhook delivery.
             */
            delivery_id: string | null;
            /** @description More about it, for people. */
            detail: string;
            /**
             * Format: uuid
             * @description The webhook endpoint.
             */
            endpoint_id: string | null;
            /**
             * @description What happened.
             * @enum {string}
             */
            step: "accepted" | "received" | "status" | "event" | "attempt" | "next_attempt";
        };
        User: {
            /**
             * Format: date-time
             * @description When it was created.
             */
            created_at: string;
            /**
             * Format: uuid
             * @description The account.
             */
            customer_id: string;
            /** @description The e-mail address. */
            email: string;
            /** @description Whether the address is confirmed. */
            email_verified: boolean;
            /**
             * Format: uuid
             * @description Its id.
             */
            id: string;
            /**
             * Format: date-time
             * @description When the member last logged in.
             */
            last_login_at: string | null;
            /** @description What the member may do. */
            role: components["schemas"]["Role"];
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
