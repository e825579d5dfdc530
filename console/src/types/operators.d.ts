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
        /** @description Who performed the action. */
        AuditActor: {
            /** @description E-mail address of the member; absent if none is known. */
            email?: string | null;
            /** @description Id of the key, member or node, or name of the operator; `null` if none is known. */
            id: string | null;
            /** @description First 12 characters of the key, safe to show; absent if no key was used. */
            prefix?: string | null;
            /** @description Type: `api_key`, `session`, `operator`, `join_token`, `system` or `unknown`. */
            type: string;
        };
        /** @description Object of the action. */
        AuditTarget: {
            /** @description Id. */
            id: string;
            /** @description Name of the object at that time; it remains when the object is deleted. */
            label: string;
            /** @description Type of the object, such as `api_key`. */
            type: string;
        };
        /**
         * @description Who wrote a message of a ticket.
         * @enum {string}
         */
        Author: "customer" | "support";
        Backup: {
            /** @description Id of the cluster. */
            cluster_id: string;
            /** @description Format of the cluster: which records it may contain. */
            format: components["schemas"]["Format"];
            /**
             * Format: uint16
             * @description Number of shards. The groups to read are the shards, from 1, and the directory, 0.
             */
            shards: number;
            /** @description The release of the node that answers. */
            version: string;
        };
        /** @description A backup taken by a node. */
        BackupJob: {
            /**
             * Format: date-time
             * @description Start of the backup.
             */
            began_at: string;
            /**
             * Format: date-time
             * @description End; `null` if it has not ended.
             */
            ended_at: string | null;
            /** @description Id of the backup job, also in the log of the node. */
            job_id: string;
            /** @description Why the backup failed; `null` unless it did. */
            problem: string | null;
            /** @description State. */
            state: components["schemas"]["BackupState"];
            /** @description Destination of the backup: a folder of the node, or `s3://BUCKET/PREFIX`. */
            to: string;
        };
        /** @enum {string} */
        BackupState: "running" | "failed" | "done";
        /** @description Capacity and refill rate of a token bucket. */
        BucketRule: {
            /**
             * Format: uint32
             * @description Maximum number of tokens in the bucket.
             */
            burst: number;
            /**
             * Format: uint32
             * @description Tokens added per second.
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
             * @description Number of connected channels.
             */
            connected: number;
            /**
             * Format: uint
             * @description Total number.
             */
            total: number;
        };
        ClusterCheck: {
            /** @description Whether any one node can be lost now without an outage; always `false` with fewer than three nodes. */
            can_lose_a_node: boolean;
            /** @description Findings, at least one for each check. */
            checks: components["schemas"]["Finding"][];
            /** @description Status. */
            status: components["schemas"]["Condition"];
        };
        ClusterFormat: {
            /** @description Format of the cluster: what nodes may store and send. A release understands all formats up to a highest one. */
            format: components["schemas"]["Format"];
            /** @description Highest format that all members understand; `null` while one does not answer. */
            highest: components["schemas"]["Format"] | null;
            /** @description The nodes. */
            nodes: components["schemas"]["NodeRelease"][];
        };
        ClusterStatus: {
            /** @description What the request's operator token may do. */
            access: components["schemas"]["Access"];
            /** @description Number of channels by status, in the shards that have an owner. */
            channels: {
                [key: string]: number;
            };
            /** @description Id of the cluster; `null` until the cluster is formed. */
            cluster_id: string | null;
            /**
             * Format: uint
             * @description Number of accounts.
             */
            customers: number;
            /** @description Findings that are not `ok`; `GET /v1/admin/check` lists all. */
            findings: components["schemas"]["Finding"][];
            /** @description Format of the cluster: what the nodes may store and send; see `GET /v1/admin/format`. */
            format: components["schemas"]["Format"];
            /**
             * Format: date-time
             * @description Time when the cluster was formed; `null` until then.
             */
            formed_at: string | null;
            /**
             * Format: uint64
             * @description The node that answers.
             */
            node_id: number;
            /** @description The nodes. */
            nodes: components["schemas"]["ReadyOfAll"];
            /** @description Name of the request's operator token; `null` for the token that all operators share. */
            operator: string | null;
            /** @description Nodes that answer, by their release. */
            releases: {
                [key: string]: number[];
            };
            /** @description The Raft groups: the shards and the directory. */
            shards: components["schemas"]["ReadyOfAll"];
            /** @description Status. */
            status: components["schemas"]["Condition"];
            /** @description The release of the node that answers. */
            version: string;
            /**
             * Format: uint
             * @description Number of webhook endpoints.
             */
            webhook_endpoints: number;
        };
        /**
         * @description Condition of the whole cluster.
         * @enum {string}
         */
        Condition: "operational" | "degraded" | "outage";
        /** @description A ticket with its messages. */
        Conversation: {
            /** @description What the ticket is about. */
            category: components["schemas"]["Category"];
            /**
             * Format: uuid
             * @description Id of the channel, if there is one.
             */
            channel_id: string | null;
            /**
             * Format: date-time
             * @description Time of creation.
             */
            created_at: string;
            /** @description Address of the creator. */
            created_by: string;
            /** @description Account that the ticket belongs to. */
            customer: components["schemas"]["CustomerView"];
            /**
             * Format: uuid
             * @description Id.
             */
            id: string;
            /** @description The messages, oldest first. */
            messages: components["schemas"]["MessageView"][];
            /**
             * Format: uint32
             * @description Sequence number.
             */
            number: number;
            /** @description Priority of the ticket. */
            priority: components["schemas"]["Priority"];
            /** @description `X-Request-Id` of the request that the ticket is about; `null` if none was named. */
            request_id: string | null;
            /** @description Status. */
            status: components["schemas"]["TicketStatus"];
            /** @description Subject of the ticket. */
            subject: string;
            /**
             * Format: date-time
             * @description Time of the last change.
             */
            updated_at: string;
        };
        /** @description The new account, and its first API key. */
        CreatedCustomer: {
            /** @description The first key of the account; its secret is shown once. */
            api_key: components["schemas"]["IssuedKey"];
            /** @description Number of channels. */
            channels: components["schemas"]["ChannelCounts"];
            /**
             * Format: date-time
             * @description Time of creation.
             */
            created_at: string;
            /** @description The e-mail address. */
            email: string | null;
            /**
             * Format: uuid
             * @description Id.
             */
            id: string;
            /** @description Limits of request rates and storage. */
            limits: components["schemas"]["CustomerLimits"];
            /** @description Name. */
            name: string;
            /** @description Plan of the account. */
            plan: components["schemas"]["Plan"];
            /** @description Quotas of the plan and their use; only in responses of `/v1/account`. */
            storage?: components["schemas"]["Storage"] | null;
            /** @description Time zone by its IANA name, such as `Europe/Berlin`. */
            timezone: string;
        };
        /** @description An account with its present limits. */
        Customer: {
            /** @description Number of channels. */
            channels: components["schemas"]["ChannelCounts"];
            /**
             * Format: date-time
             * @description Time of creation.
             */
            created_at: string;
            /** @description The e-mail address. */
            email: string | null;
            /**
             * Format: uuid
             * @description Id.
             */
            id: string;
            /** @description Limits of request rates and storage. */
            limits: components["schemas"]["CustomerLimits"];
            /** @description Name. */
            name: string;
            /** @description Plan of the account. */
            plan: components["schemas"]["Plan"];
            /** @description Quotas of the plan and their use; only in responses of `/v1/account`. */
            storage?: components["schemas"]["Storage"] | null;
            /** @description Time zone by its IANA name, such as `Europe/Berlin`. */
            timezone: string;
        };
        CustomerLimits: {
            /** @description The rate limit of each channel. */
            channel: components["schemas"]["BucketRule"];
            /** @description The rate limit of the account. */
            customer: components["schemas"]["BucketRule"];
            /** @description Storage limits of the account. */
            storage: components["schemas"]["StorageLimits"];
        };
        CustomerView: {
            /**
             * Format: uuid
             * @description Id.
             */
            id: string;
            /** @description Name of the account; `null` once the account's data is removed. */
            name: string | null;
        };
        DataKeyRotation: {
            /**
             * Format: date-time
             * @description Start of the rotation.
             */
            began_at: string;
            /**
             * Format: date-time
             * @description End; `null` if it has not ended.
             */
            ended_at: string | null;
            /**
             * Format: uint
             * @description Customers that have a previous data key.
             */
            former_keys: number;
            /** @description Shards in which something may still be encrypted with a previous data key. */
            shards_left: number[];
            /**
             * @description `changing`: customers get new data keys. `resealing`: what is encrypted with previous ones is re-encrypted.
             *     `keeping`: previous data keys are not in use, but kept for a while. `ended`: they are dropped.
             * @enum {string}
             */
            state: "changing" | "resealing" | "keeping" | "ended";
        };
        /**
         * @description Direction of a message.
         * @enum {string}
         */
        Direction: "inbound" | "outbound";
        /**
         * @description Why the gateway disabled an endpoint: it answered 410 (`gone`), or it kept failing (`failing`).
         * @enum {string}
         */
        DisabledReason: "gone" | "failing";
        Error: {
            /**
             * ErrorBody
             * @description Details of the error, if there was one.
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
            /** @description `X-Request-Id` of the request. */
            request_id: string;
        };
        Figures: {
            /** @description The nodes. */
            nodes: components["schemas"]["NodeFigures"][];
            /**
             * Format: uint32
             * @description Length of a step in seconds.
             */
            step_seconds: number;
        };
        /** @description Figures of a node over one step. */
        FiguresPoint: {
            /**
             * Format: date-time
             * @description Start of the step.
             */
            at: string;
            /**
             * Format: uint64
             * @description Attempts to deliver webhooks.
             */
            attempts: number;
            /**
             * Format: uint64
             * @description Attempts to deliver webhooks that did not succeed.
             */
            attempts_failed: number;
            /**
             * Format: uint64
             * @description Channels connected at the end of the step.
             */
            connected: number;
            /**
             * Format: double
             * @description 99th percentile of the sync times of the Raft log, in milliseconds; `null` if nothing was written.
             */
            fsync_p99_ms: number | null;
            /**
             * Format: uint64
             * @description Messages received.
             */
            inbound: number;
            /**
             * Format: uint64
             * @description Shards that the node owned at the end of the step.
             */
            leads: number;
            /**
             * Format: uint64
             * @description Resident memory of the process in bytes, at the end of the step.
             */
            rss_bytes: number;
            /**
             * Format: uint64
             * @description Approximate median time until the network accepted a send, in milliseconds; `null` without a send.
             */
            send_p50_ms: number | null;
            /**
             * Format: uint64
             * @description Approximate 99th percentile of the time until the network accepted a send, in milliseconds; `null` without one.
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
        /** @description A result of a check. */
        Finding: {
            /**
             * @description Name of the check.
             * @enum {string}
             */
            check: "nodes" | "shards" | "replicas" | "lose_a_node" | "leads" | "tasks" | "fsync" | "clock" | "disk" | "slots" | "connections" | "certificates" | "secrets" | "configuration";
            /** @description Severity; with `warning`, nothing is at risk now. */
            level: components["schemas"]["Level"];
            /** @description Explanation, for people. */
            message: string;
            /**
             * Format: uint64
             * @description Node that the finding is about; `null` if it is about the cluster.
             */
            node_id: number | null;
            /** @description What to do; `null` when there is nothing to do. */
            remedy: string | null;
        };
        /**
         * Format: uint8
         * @description Version of what nodes store and send, counted from 1.
         */
        Format: number;
        /**
         * @description State of a Raft group.
         * @enum {string}
         */
        GroupState: "no_leader" | "ok" | "degraded";
        Health: {
            /**
             * Format: uint64
             * @description The node that answers.
             */
            node: number;
            /** @description Status. */
            status: string;
            /** @description The release of the node that answers. */
            version: string;
        };
        /** @description An API key with its secret, shown only in the response that creates it. */
        IssuedKey: {
            /**
             * Format: uuid
             * @description The channel that the key is bound to; `null` for all channels of the account.
             */
            channel_id: string | null;
            /**
             * Format: date-time
             * @description Time of creation.
             */
            created_at: string;
            /** @description How the key was created. */
            created_by: components["schemas"]["KeyOrigin"];
            /**
             * Format: uuid
             * @description The key that created this one; `null` if none did.
             */
            created_by_key_id: string | null;
            /**
             * Format: uuid
             * @description Id of the account.
             */
            customer_id: string;
            /**
             * Format: date-time
             * @description Time of expiry, if there is one.
             */
            expires_at: string | null;
            /**
             * Format: uuid
             * @description Id.
             */
            id: string;
            /**
             * Format: date-time
             * @description Time of the last use, within five minutes; `null` if there was none.
             */
            last_used_at: string | null;
            /** @description Name. */
            name: string;
            /** @description The first 12 characters of the key, safe to show. */
            prefix: string;
            /**
             * Format: date-time
             * @description Time when the key was revoked; `null` if it was not.
             */
            revoked_at: string | null;
            /** @description Scopes of the key, such as `messages.read`; an empty list grants everything. */
            scopes: string[];
            /** @description The whole key; it is shown only once. */
            secret: string;
            /**
             * @description Status.
             * @enum {string}
             */
            status: "active" | "expired" | "revoked";
        };
        JoinToken: {
            /**
             * Format: date-time
             * @description Time of expiry, if there is one.
             */
            expires_at: string;
            /** @description The join token; it is shown only once. */
            token: string;
        };
        /**
         * @description How an API key was created: with the account, by another key, by a member, or with its channel.
         * @enum {string}
         */
        KeyOrigin: "signup" | "api_key" | "dashboard" | "channel_create";
        Layout: {
            /** @description Last change of the layout; `null` if there was none since the cluster was created. */
            change: components["schemas"]["LayoutChange"] | null;
            /** @description Placement of each shard. */
            shards: components["schemas"]["PlacedShard"][];
        };
        LayoutChange: {
            /**
             * Format: uint16
             * @description Number of moves that run at a time.
             */
            at_once: number;
            /** @description Whether the cluster began it: to restore the number of replicas, or as a node had much more load than others. */
            automatic: boolean;
            /**
             * Format: date-time
             * @description Start of the change.
             */
            began_at: string;
            /**
             * Format: uint
             * @description Cancelled moves.
             */
            cancelled: number;
            /**
             * Format: uint
             * @description Completed moves.
             */
            done: number;
            /**
             * Format: date-time
             * @description End; `null` if it has not ended.
             */
            ended_at: string | null;
            /** @description The moves, each of one shard. */
            moves: components["schemas"]["Move"][];
            /**
             * Format: uint64
             * @description Sequence number.
             */
            number: number;
            /**
             * Format: uint
             * @description Moves in progress.
             */
            running: number;
            /**
             * @description State.
             * @enum {string}
             */
            state: "running" | "done" | "cancelled";
            /**
             * Format: uint
             * @description Moves in total.
             */
            total: number;
            /**
             * Format: uint
             * @description Moves that have not begun.
             */
            waiting: number;
        };
        /** @description Cost of moves. */
        LayoutCost: {
            /**
             * Format: uint
             * @description Channels that log in again because the leadership of their shard moves.
             */
            channels: number;
            /**
             * Format: uint
             * @description Shards whose leadership moves.
             */
            leads: number;
            /**
             * Format: uint
             * @description Replicas that are copied.
             */
            replicas: number;
        };
        LayoutPlan: {
            /** @description Cost of the moves. */
            cost: components["schemas"]["LayoutCost"];
            /** @description The moves, each of one shard. */
            moves: components["schemas"]["Move"][];
            /** @description Load of each node now and after the moves. */
            nodes: components["schemas"]["NodeLoad"][];
            /**
             * Format: uint64
             * @description Number of the change that this plan would begin, for `POST /v1/admin/layout/apply`.
             */
            number: number;
        };
        /** @enum {string} */
        Level: "ok" | "failing" | "warning";
        MasterKeyExchange: {
            /**
             * Format: date-time
             * @description Start of the exchange.
             */
            began_at: string;
            /**
             * Format: date-time
             * @description Time when the last data key was re-encrypted; `null` until then.
             */
            ended_at: string | null;
            /** @description Id of the previous master key. */
            from: string;
            /** @description Whether the previous master key can be removed, since no data key is encrypted under it any more. */
            old_key_may_go: boolean;
            /**
             * Format: date-time
             * @description Time until which nodes that still have the previous master key also sign deliveries with the previous default
             *     secrets.
             */
            signs_with_both_until: string;
        };
        /** @description Why a message failed. */
        MessageError: {
            /** @description Stable code, for programs. */
            code: string;
            /** @description Explanation, for people. */
            message: string;
        };
        /**
         * @description Status of a stored message; that of an outbound one only moves forward.
         * @enum {string}
         */
        MessageStatus: "queued" | "sent" | "delivered" | "read" | "played" | "failed" | "received";
        MessageTrace: {
            /**
             * Format: uuid
             * @description Id of the channel, if there is one.
             */
            channel_id: string;
            /** @description The channel's name. */
            channel_name: string;
            /** @description The caller's own reference, which the response and `message.sent` repeat. */
            client_ref: string | null;
            /** @description Value of the header `X-Gateway-Correlation-Id`. */
            correlation_id: string;
            /**
             * Format: uuid
             * @description Id of the account.
             */
            customer_id: string;
            /** @description Whether it was received or sent. */
            direction: components["schemas"]["Direction"];
            /**
             * Format: uint64
             * @description Term of the owner's leadership, which fences off earlier owners.
             */
            epoch: number;
            /** @description Details of the error, if there was one. */
            error: components["schemas"]["MessageError"] | null;
            /** @description Author, buyer or caller: the phone address if known, otherwise the linked-device address. */
            from: string;
            /** @description Id of the message in the network; `3EB0` and 36 upper-case hex characters if the gateway created it. */
            message_id: string;
            /**
             * Format: uint64
             * @description Node that owns the channel now.
             */
            node_id: number;
            /** @description Id of the request that sent the message, for the log of the node that received the request. */
            request_id: string | null;
            /**
             * Format: uint16
             * @description Number of the shard.
             */
            shard: number;
            /** @description Status. */
            status: components["schemas"]["MessageStatus"];
            /** @description What happened to the message, in order of time. */
            steps: components["schemas"]["TraceStep"][];
            /** @description Address of the recipient, or the digits of a phone number. */
            to: string;
            /** @description Type. */
            type: string;
        };
        MessageView: {
            /** @description Author of the message. */
            author: components["schemas"]["Author"];
            /**
             * Format: date-time
             * @description Time of creation.
             */
            created_at: string;
            /**
             * Format: uuid
             * @description Id.
             */
            id: string;
            /** @description Text of the message. */
            message: string;
        };
        Move: {
            /**
             * Format: date-time
             * @description Start; `null` while it waits.
             */
            began_at: string | null;
            /**
             * Format: uint64
             * @description Estimate of the bytes that new replicas have received of the shard's state, without media; `null` if none is
             *     being created, or nothing is on the leader's disk yet.
             */
            copied_bytes: number | null;
            /**
             * Format: date-time
             * @description End; `null` if it has not ended.
             */
            ended_at: string | null;
            /** @description Nodes that hold the replicas before the move. */
            from: number[];
            /**
             * Format: uint64
             * @description Node that should lead the shard after the move.
             */
            leader: number;
            /**
             * Format: uint16
             * @description Number of the shard.
             */
            shard: number;
            /** @description State. */
            state: components["schemas"]["MoveState"];
            /** @description Nodes that hold the replicas after the move. */
            to: number[];
            /**
             * Format: uint64
             * @description Estimate of the bytes that new replicas receive in total; `null` like `copied_bytes`.
             */
            to_copy_bytes: number | null;
        };
        /** @description A transfer of the leadership of a shard. */
        Moved: {
            /**
             * Format: uint64
             * @description Node that should have led the shard until now.
             */
            from: number;
            /**
             * Format: uint16
             * @description Number of the shard.
             */
            shard: number;
            /**
             * Format: uint64
             * @description Node that should lead the shard from now on.
             */
            to: number;
        };
        /** @enum {string} */
        MoveState: "waiting" | "running" | "done" | "cancelled";
        Node: {
            /** @description Address at which the other nodes reach the node. */
            address: string;
            /**
             * Format: uint64
             * @description Channels that are connected on the node.
             */
            channels_connected: number | null;
            /**
             * Format: int64
             * @description Milliseconds by which the node's clock is ahead of that of the answering node; negative if it is behind.
             */
            clock_ahead_ms: number | null;
            /**
             * Format: uint64
             * @description Bytes free on the disk that holds the data folder.
             */
            disk_free_bytes: number | null;
            /**
             * Format: uint64
             * @description Size in bytes of the disk that holds the data folder.
             */
            disk_total_bytes: number | null;
            /**
             * Format: double
             * @description Median sync time of the Raft log in the last minute, in milliseconds.
             */
            fsync_p50_ms: number | null;
            /**
             * Format: double
             * @description 99th percentile of the sync times of the Raft log in the last minute, in milliseconds.
             */
            fsync_p99_ms: number | null;
            /**
             * Format: uint64
             * @description Id.
             */
            id: number;
            /**
             * Format: uint
             * @description Number of shards that the node should lead.
             */
            leads: number;
            /**
             * Format: uint64
             * @description Bytes on disk of the Raft logs.
             */
            log_bytes: number | null;
            /** @description Membership of the node; a `leaving` one is removed as soon as no shard is placed on it. */
            member: components["schemas"]["NodeState"];
            /** @description Shards that the node leads now. */
            owns: number[] | null;
            /**
             * Format: date-time
             * @description Time when the node first joined the cluster.
             */
            registered_at: string;
            /**
             * Format: uint
             * @description Number of shards with a replica on the node.
             */
            replicas: number;
            /**
             * Format: uint64
             * @description Resident memory of the process in bytes.
             */
            rss_bytes: number | null;
            /** @description Whether the node accepts requests, as its `/readyz` says. */
            serves: boolean;
            /** @description Why the node did not answer; `null` if it did. */
            silence: string | null;
            /**
             * Format: uint32
             * @description Maximum number of channel sessions on the node (`node.max_channels`).
             */
            slots: number;
            /**
             * Format: date-time
             * @description Time when the process started.
             */
            started_at: string | null;
            /**
             * @description State.
             * @enum {string}
             */
            state: "ready" | "draining" | "down";
            /**
             * Format: uint64
             * @description Bytes on disk of the state that is made from the Raft logs.
             */
            state_bytes: number | null;
            /** @description Highest format that the node's release understands. */
            understands: components["schemas"]["Format"] | null;
            /**
             * Format: uint64
             * @description Slots in use.
             */
            used: number | null;
            /** @description Release of the node; while the node does not answer, this and all else that only the node knows is `null`. */
            version: string | null;
            /** @description Whether the node is a voter of the directory. */
            votes: boolean;
            /**
             * Format: uint32
             * @description Share of the shards, relative to the other nodes.
             */
            weight: number;
            /** @description Zone of the node; replicas are spread over zones. */
            zone: string | null;
        };
        NodeAuthority: {
            /**
             * Format: date-time
             * @description Start of the rotation under way; `null` if there is none.
             */
            began_at: string | null;
            /** @description SHA-256 of the authority's certificate. */
            id: string;
            /**
             * Format: date-time
             * @description Time when the authority replaced the previous one; `null` for the first one.
             */
            rotated_at: string | null;
            /**
             * @description `settled`: no rotation is under way. `wanted`: a new authority is to be created. `announced`: nodes come to
             *     trust it. `overlapping`: it signs, and nodes with certificates of the previous one are still trusted.
             * @enum {string}
             */
            state: "settled" | "wanted" | "announced" | "overlapping";
            /** @description Nodes that the rotation waits for: they do not answer, or have not completed its present step. */
            waits_for: number[];
        };
        NodeFigures: {
            /**
             * Format: uint64
             * @description Id of the node.
             */
            node_id: number;
            /** @description Figures of each step, oldest first. */
            points: components["schemas"]["FiguresPoint"][];
            /** @description Why the node did not answer; `null` if it did. */
            silence: string | null;
        };
        /**
         * @description Load of a node: the sum over the shards that it should lead, of which a quiet one counts 1, and a busy one more, by
         *     its work in the last minute.
         */
        NodeLoad: {
            /**
             * Format: uint
             * @description Number of shards that the node should lead now.
             */
            leads: number;
            /**
             * Format: uint
             * @description Number of shards that the node should lead after the moves.
             */
            leads_after: number;
            /**
             * Format: double
             * @description Load of the shards that the node should lead now.
             */
            load: number;
            /**
             * Format: double
             * @description Load of the shards that the node should lead after the moves.
             */
            load_after: number;
            /**
             * Format: uint64
             * @description Id of the node.
             */
            node_id: number;
            /**
             * Format: uint32
             * @description Share of the shards, relative to the other nodes.
             */
            weight: number;
        };
        /** @description The release of a node. */
        NodeRelease: {
            /**
             * Format: uint64
             * @description Id.
             */
            id: number;
            /** @description Highest format that the node understands; `null` while it does not answer. */
            understands: components["schemas"]["Format"] | null;
            /** @description Release of the node; `null` while the node does not answer. */
            version: string | null;
        };
        /** @description A node that is being removed, or would be. */
        NodeRemoval: {
            /** @description Address at which the other nodes reach the node. */
            address: string;
            /**
             * Format: uint64
             * @description Channels that are connected on the node.
             */
            channels_connected: number | null;
            /**
             * Format: int64
             * @description Milliseconds by which the node's clock is ahead of that of the answering node; negative if it is behind.
             */
            clock_ahead_ms: number | null;
            /**
             * Format: uint64
             * @description Bytes free on the disk that holds the data folder.
             */
            disk_free_bytes: number | null;
            /**
             * Format: uint64
             * @description Size in bytes of the disk that holds the data folder.
             */
            disk_total_bytes: number | null;
            /**
             * Format: double
             * @description Median sync time of the Raft log in the last minute, in milliseconds.
             */
            fsync_p50_ms: number | null;
            /**
             * Format: double
             * @description 99th percentile of the sync times of the Raft log in the last minute, in milliseconds.
             */
            fsync_p99_ms: number | null;
            /**
             * Format: uint64
             * @description Id.
             */
            id: number;
            /**
             * Format: uint
             * @description Number of shards that the node should lead.
             */
            leads: number;
            /** @description The nodes that remain after the removal. */
            left: components["schemas"]["NodesLeft"];
            /**
             * Format: uint64
             * @description Bytes on disk of the Raft logs.
             */
            log_bytes: number | null;
            /** @description Membership of the node; a `leaving` one is removed as soon as no shard is placed on it. */
            member: components["schemas"]["NodeState"];
            /** @description Shards that the node leads now. */
            owns: number[] | null;
            /**
             * Format: date-time
             * @description Time when the node first joined the cluster.
             */
            registered_at: string;
            /**
             * Format: uint
             * @description Number of shards with a replica on the node.
             */
            replicas: number;
            /**
             * Format: uint64
             * @description Resident memory of the process in bytes.
             */
            rss_bytes: number | null;
            /** @description Whether the node accepts requests, as its `/readyz` says. */
            serves: boolean;
            /** @description Why the node did not answer; `null` if it did. */
            silence: string | null;
            /**
             * Format: uint32
             * @description Maximum number of channel sessions on the node (`node.max_channels`).
             */
            slots: number;
            /**
             * Format: date-time
             * @description Time when the process started.
             */
            started_at: string | null;
            /**
             * @description State.
             * @enum {string}
             */
            state: "ready" | "draining" | "down";
            /**
             * Format: uint64
             * @description Bytes on disk of the state that is made from the Raft logs.
             */
            state_bytes: number | null;
            /** @description Highest format that the node's release understands. */
            understands: components["schemas"]["Format"] | null;
            /**
             * Format: uint64
             * @description Slots in use.
             */
            used: number | null;
            /** @description Release of the node; while the node does not answer, this and all else that only the node knows is `null`. */
            version: string | null;
            /** @description Whether the node is a voter of the directory. */
            votes: boolean;
            /**
             * Format: uint32
             * @description Share of the shards, relative to the other nodes.
             */
            weight: number;
            /** @description Zone of the node; replicas are spread over zones. */
            zone: string | null;
        };
        NodeSecrets: {
            /** @description Why the node did not answer; `null` if it did. */
            error: string | null;
            /** @description Ids of the master keys that the node was given, the newest first; `null` if the node did not answer. */
            master_keys: string[] | null;
            /**
             * Format: uint64
             * @description Id of the node.
             */
            node_id: number;
        };
        /** @description The nodes that remain after the removal of a node. */
        NodesLeft: {
            /** @description Remaining nodes that do not answer now. */
            away: number[];
            /** @description Whether any one of the remaining nodes could be lost without an outage. */
            can_lose_a_node: boolean;
            /**
             * Format: uint
             * @description Number of remaining nodes that can hold replicas.
             */
            nodes: number;
        };
        /**
         * @description Stage of a node's life cycle.
         * @enum {string}
         */
        NodeState: "active" | "joining" | "draining" | "leaving";
        /** @description An audit log entry with its account. */
        OwnedEntry: {
            /** @description What was done, such as `key.issued`. */
            action: string;
            /** @description Who performed the action. */
            actor: components["schemas"]["AuditActor"];
            /**
             * Format: date-time
             * @description Time of creation.
             */
            created_at: string;
            /**
             * Format: uuid
             * @description The account that the entry belongs to; `null` if none is known.
             */
            customer_id: string | null;
            /** @description Further facts about the action; absent if there are none. */
            details?: {
                [key: string]: string;
            };
            /**
             * Format: uuid
             * @description Id.
             */
            id: string;
            /** @description IP address of the client; `null` if there is none, or if the entry covers several. */
            ip: string | null;
            /**
             * @description Outcome of the action or attempt.
             * @enum {string}
             */
            outcome: "success" | "failure";
            /** @description `X-Request-Id` of the request. */
            request_id: string | null;
            /** @description What was acted upon; `null` if nothing was. */
            target: components["schemas"]["AuditTarget"] | null;
            /** @description `User-Agent` of the client; `null` if unknown. */
            user_agent: string | null;
        };
        /** @description An API key with its account. */
        OwnedKey: {
            /**
             * Format: uuid
             * @description The channel that the key is bound to; `null` for all channels of the account.
             */
            channel_id: string | null;
            /**
             * Format: date-time
             * @description Time of creation.
             */
            created_at: string;
            /** @description How the key was created. */
            created_by: components["schemas"]["KeyOrigin"];
            /**
             * Format: uuid
             * @description The key that created this one; `null` if none did.
             */
            created_by_key_id: string | null;
            /**
             * Format: uuid
             * @description Id of the account.
             */
            customer_id: string;
            /** @description Name of the account; `null` once the account's data is removed. */
            customer_name: string | null;
            /**
             * Format: date-time
             * @description Time of expiry, if there is one.
             */
            expires_at: string | null;
            /**
             * Format: uuid
             * @description Id.
             */
            id: string;
            /**
             * Format: date-time
             * @description Time of the last use, within five minutes; `null` if there was none.
             */
            last_used_at: string | null;
            /** @description Name. */
            name: string;
            /** @description The first 12 characters of the key, safe to show. */
            prefix: string;
            /**
             * Format: date-time
             * @description Time when the key was revoked; `null` if it was not.
             */
            revoked_at: string | null;
            /** @description Scopes of the key, such as `messages.read`; an empty list grants everything. */
            scopes: string[];
            /**
             * @description Status.
             * @enum {string}
             */
            status: "active" | "expired" | "revoked";
        };
        /** @description A ticket with its account, and the request that it is about. */
        OwnedTicket: {
            /** @description What the ticket is about. */
            category: components["schemas"]["Category"];
            /**
             * Format: uuid
             * @description Id of the channel, if there is one.
             */
            channel_id: string | null;
            /**
             * Format: date-time
             * @description Time of creation.
             */
            created_at: string;
            /** @description Address of the creator. */
            created_by: string;
            /** @description Account that the ticket belongs to. */
            customer: components["schemas"]["CustomerView"];
            /**
             * Format: uuid
             * @description Id.
             */
            id: string;
            /**
             * Format: uint32
             * @description Sequence number.
             */
            number: number;
            /** @description Priority of the ticket. */
            priority: components["schemas"]["Priority"];
            /** @description `X-Request-Id` of the request that the ticket is about; `null` if none was named. */
            request_id: string | null;
            /** @description Status. */
            status: components["schemas"]["TicketStatus"];
            /** @description Subject of the ticket. */
            subject: string;
            /**
             * Format: date-time
             * @description Time of the last change.
             */
            updated_at: string;
        };
        /** @description A channel with its placement. */
        PlacedChannel: {
            /**
             * Format: date-time
             * @description Time of creation.
             */
            created_at: string;
            /**
             * Format: uuid
             * @description Id of the account.
             */
            customer_id: string;
            /**
             * Format: uint64
             * @description Term of the owner's leadership, which fences off earlier owners; `null` like `node_id`.
             */
            epoch: number | null;
            /**
             * Format: uuid
             * @description Id.
             */
            id: string;
            /**
             * Format: date-time
             * @description Time when the channel was last online; `null` if it never was.
             */
            last_seen_at: string | null;
            /** @description Free-form keys and values, at most 4 KiB of JSON. */
            metadata: {
                [key: string]: unknown;
            };
            /** @description Name. */
            name: string;
            /**
             * Format: uint64
             * @description Node that owns the channel; `null` while the channel has never been used.
             */
            node_id: number | null;
            /** @description Phone number as digits. */
            phone_number: string | null;
            /** @description Nodes that hold a replica of the shard. */
            replicas: number[];
            /**
             * Format: uint16
             * @description Number of the shard.
             */
            shard: number | null;
            /** @description Status. */
            status: components["schemas"]["Status"];
            /**
             * @description Reason of the status, once something has happened to the channel; only for operators, and in lists requested
             *     with `reasons`.
             */
            status_reason?: components["schemas"]["Reason"] | null;
            /**
             * Format: date-time
             * @description Time of the last change.
             */
            updated_at: string;
        };
        PlacedShard: {
            /**
             * Format: uint
             * @description Number of channels in the shard.
             */
            channels: number;
            /**
             * Format: uint64
             * @description Node that should lead the shard.
             */
            leader: number;
            /** @description Nodes that hold a replica of the shard. */
            replicas: number[];
            /** @description Whether exactly the nodes in `replicas` vote; `false` while the shard moves to them. */
            settled: boolean;
            /**
             * Format: uint16
             * @description Number of the shard.
             */
            shard: number;
        };
        Plan: {
            /**
             * Format: uint32
             * @description Maximum number of channels; `null` for none.
             */
            channel_limit: number | null;
            /** @description Name. */
            name: string;
            /**
             * Format: date-time
             * @description Time since which a payment is overdue; `null` if none is.
             */
            overdue_since: string | null;
            /**
             * @description Status.
             * @enum {string}
             */
            status: "self_hosted" | "active" | "trial" | "past_due" | "cancelled";
            /**
             * Format: date-time
             * @description End of the trial; `null` for none.
             */
            trial_ends_at: string | null;
        };
        /** @enum {string} */
        Priority: "low" | "normal" | "urgent";
        Quota: {
            /**
             * Format: uint64
             * @description Maximum that the plan allows.
             */
            limit: number;
            /**
             * Format: uint64
             * @description Amount in use; `null` if the quota applies to each channel.
             */
            used: number | null;
        };
        Readiness: {
            /** @description Condition of each part: `ok` or `failing`; of `drain`, `yes` or `no`. */
            checks: {
                [key: string]: string;
            };
            /**
             * @description Status.
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
             * @description Total number.
             */
            total: number;
        };
        /**
         * @description Reason for the status of a channel.
         * @enum {string}
         */
        Reason: "created" | "qr_requested" | "connect_requested" | "paired" | "login_ok" | "network" | "worker_lost" | "rebalance" | "qr_timeout" | "pairing_refused" | "reconnect_budget" | "no_worker" | "logout" | "session_invalidated" | "kicked_other_device" | "stream_replaced_loop" | "client_outdated" | "auth_state" | "crash_loop" | "user" | "admin" | "banned" | "restored";
        Replica: {
            /**
             * Format: uint64
             * @description Index of the last log entry that the replica has applied; `null` if it did not report.
             */
            applied: number | null;
            /**
             * Format: uint64
             * @description Log entries that the replica has yet to apply; `null` if it did not report.
             */
            lag: number | null;
            /**
             * Format: uint64
             * @description Id of the node.
             */
            node_id: number;
            /**
             * @description Role in the group; a `learner` does not count towards a quorum.
             * @enum {string}
             */
            role: "voter" | "learner";
            /**
             * Format: uint64
             * @description Bytes of a snapshot that the leader has sent to the replica so far; `null` if it sends none.
             */
            sent_bytes: number | null;
            /** @description State. */
            state: components["schemas"]["ReplicaState"];
        };
        ReplicaHash: {
            /**
             * Format: uint64
             * @description Index of the last log entry that is applied to the state.
             */
            applied: number;
            /**
             * Format: uint64
             * @description Id of the node.
             */
            node_id: number;
            /**
             * Format: uint16
             * @description The shard; `0` is the directory, which all nodes share.
             */
            shard: number;
            /** @description Hash of all rows after the entry `applied`, in hexadecimal digits. */
            state_hash: string;
        };
        /**
         * @description State of a replica.
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
            /** @description Certificate authority between the nodes; `null` while the cluster does not have its key. */
            authority: components["schemas"]["NodeAuthority"] | null;
            /** @description Last rotation of the customers' data keys; `null` if there was none. */
            data_key_rotation: components["schemas"]["DataKeyRotation"] | null;
            /**
             * Format: uint
             * @description Number of data keys: one for each customer, and those of the deployment and its certificate authority.
             */
            data_keys: number;
            /** @description Last exchange of the master key; `null` if there was none. */
            exchange: components["schemas"]["MasterKeyExchange"] | null;
            /** @description Id of the master key that all data keys are to be encrypted under. */
            master_key: string;
            /** @description The nodes. */
            nodes: components["schemas"]["NodeSecrets"][];
            /**
             * Format: uint
             * @description Data keys that are still to be re-encrypted.
             */
            remaining: number;
            /** @description Number of data keys encrypted under each master key, by its id. */
            sealed_under: {
                [key: string]: number;
            };
            /** @description The key that signs session tokens. */
            session_key: components["schemas"]["SessionKey"];
            /**
             * @description `settled`: no data key is encrypted under another master key. `waiting`: a node was given another master key,
             *     and the exchange has not begun. `rewrapping`: data keys are being re-encrypted.
             * @enum {string}
             */
            state: "settled" | "waiting" | "rewrapping";
        };
        SessionKey: {
            /**
             * Format: date-time
             * @description Time until which tokens of the previous key are accepted; `null` if there is none.
             */
            former_until: string | null;
            /**
             * Format: date-time
             * @description Time of the last rotation; `null` if there was none.
             */
            rotated_at: string | null;
        };
        Shard: {
            /**
             * Format: uint
             * @description Replicas that can be lost now without an outage.
             */
            can_lose: number;
            /**
             * Format: uint
             * @description Number of channels in the shard, without deleted ones.
             */
            channels: number;
            /**
             * Format: uint16
             * @description Id.
             */
            id: number;
            /**
             * @description Kind.
             * @enum {string}
             */
            kind: "directory" | "shard";
            /**
             * Format: uint64
             * @description Node that leads the group; `null` if none does.
             */
            leader: number | null;
            /** @description Replicas of the group. */
            replicas: components["schemas"]["Replica"][];
            /** @description Whether the leader reports that it cannot commit what it has proposed. */
            stalled: boolean;
            /** @description State. */
            state: components["schemas"]["GroupState"];
            /**
             * Format: uint64
             * @description Raft term of the group: the epoch of the shard's owner.
             */
            term: number;
            /**
             * Format: uint64
             * @description Node that should lead the group; `null` for the directory, which any node may lead.
             */
            wanted_leader: number | null;
        };
        /**
         * @description Status of a channel.
         * @enum {string}
         */
        Status: "pending" | "qr" | "connecting" | "reconnecting" | "connected" | "disconnected" | "logged_out" | "stopped_by_user" | "disabled_by_admin" | "error" | "failed";
        /** @description Quotas of the plan and their use. */
        Storage: {
            /** @description Webhook endpoints. */
            endpoints: components["schemas"]["Quota"];
            /** @description API keys that are not revoked. */
            keys: components["schemas"]["Quota"];
            /** @description Labels per channel. */
            labels: components["schemas"]["Quota"];
            /** @description Bytes of stored media. */
            media_bytes: components["schemas"]["Quota"];
            /** @description Approximate bytes of messages and webhook deliveries on disk. */
            message_bytes: components["schemas"]["Quota"];
            /** @description Tickets that are neither solved nor closed. */
            tickets_open: components["schemas"]["Quota"];
        };
        /** @description Storage limits of the account's plan. */
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
             * @description Labels per channel.
             */
            labels: number;
            /**
             * Format: uint64
             * @description Bytes of stored media.
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
             * @description Id of the account.
             */
            customer_id: string;
            /** @description Name of the account; `null` once the account's data is removed. */
            customer_name: string | null;
            /** @description Why the gateway disabled the endpoint; `null` if it did not. */
            disabled_reason: components["schemas"]["DisabledReason"] | null;
            /**
             * Format: uuid
             * @description Id of the webhook endpoint, if there is one.
             */
            endpoint_id: string;
            /**
             * Format: date-time
             * @description Time of the first failure since the last success; `null` if there was none.
             */
            failing_since: string | null;
            /** @description Error of the last attempt at the oldest waiting delivery; `null` without one, and after the first 50 rows. */
            last_error: string | null;
            /**
             * Format: date-time
             * @description Time of the last successful delivery; `null` if there was none.
             */
            last_success_at: string | null;
            /**
             * Format: date-time
             * @description Time of the next attempt; `null` if no delivery waits.
             */
            next_attempt_at: string | null;
            /**
             * Format: date-time
             * @description Creation time of the oldest waiting delivery; `null` if none waits.
             */
            oldest: string | null;
            /** @description Whether more deliveries may wait than `waiting` says, since they were too many to count. */
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
             * @description Deliveries that wait for an attempt.
             */
            waiting: number;
        };
        /**
         * @description Status of a ticket: `open` waits for the support, `waiting` for the customer; `closed` accepts no more messages.
         * @enum {string}
         */
        TicketStatus: "open" | "waiting" | "solved" | "closed";
        /** @description Something that happened to the cluster. */
        TimelineEntry: {
            /** @description Action, as in the audit log. */
            action: string;
            /** @description Who acted; with type `system`, the cluster itself observed it, and `id` is the number of the observing node. */
            actor: components["schemas"]["AuditActor"];
            /**
             * Format: date-time
             * @description When it happened.
             */
            at: string;
            /**
             * @description Of shards taken over: `node`, `from`, `shards`, `channels`, `away_ms`, and `reason`, which is `lost` or
             *     `handed_over`. Of checks: `check`, `level`, `was`, `message`. Of nodes: `release`, `was`, `away_ms`.
             */
            details: {
                [key: string]: string;
            };
            /**
             * Format: uuid
             * @description Id.
             */
            id: string;
            /**
             * @description Kind.
             * @enum {string}
             */
            kind: "node" | "lead" | "layout" | "check" | "backup" | "release" | "secrets";
            /**
             * Format: uint64
             * @description Node that the entry is about; `null` if it is about something else.
             */
            node_id: number | null;
            /** @description Summary, for people. */
            summary: string;
            /** @description What was acted upon. */
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
             * @description Webhook delivery that the step is about; `null` if it is about the message itself.
             */
            delivery_id: string | null;
            /** @description Details, for people. */
            detail: string;
            /**
             * Format: uuid
             * @description Id of the webhook endpoint, if there is one.
             */
            endpoint_id: string | null;
            /**
             * @description Kind of the step.
             * @enum {string}
             */
            step: "accepted" | "received" | "status" | "event" | "attempt" | "next_attempt";
        };
        User: {
            /**
             * Format: date-time
             * @description Time of creation.
             */
            created_at: string;
            /**
             * Format: uuid
             * @description Id of the account.
             */
            customer_id: string;
            /** @description The e-mail address. */
            email: string;
            /** @description Whether the address is confirmed. */
            email_verified: boolean;
            /**
             * Format: uuid
             * @description Id.
             */
            id: string;
            /**
             * Format: date-time
             * @description Time of the member's last login; `null` before the first.
             */
            last_login_at: string | null;
            /** @description Role of the member, which determines the permissions. */
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
