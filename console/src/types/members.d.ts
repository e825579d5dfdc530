// Written by types.mjs.
export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description An account with its plan. */
        Account: {
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
            /** @description Name. */
            name: string;
            /** @description Plan of the account. */
            plan: components["schemas"]["Plan"];
            /** @description Quotas of the plan and their use; only in responses of `/v1/account`. */
            storage?: components["schemas"]["Storage"] | null;
            /** @description Time zone by its IANA name, such as `Europe/Berlin`. */
            timezone: string;
        };
        /** @description An API key without its secret. */
        ApiKey: {
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
            /**
             * @description Status.
             * @enum {string}
             */
            status: "active" | "expired" | "revoked";
        };
        /**
         * @description Why an attempt was made.
         * @enum {string}
         */
        AttemptTrigger: "scheduled" | "manual";
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
        /** @description An audit log entry. */
        AuditEntry: {
            /** @description What was done, such as `key.issued`. */
            action: string;
            /** @description Who performed the action. */
            actor: components["schemas"]["AuditActor"];
            /**
             * Format: date-time
             * @description Time of creation.
             */
            created_at: string;
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
        BucketLevel: {
            /**
             * Format: uint32
             * @description Capacity of the bucket.
             */
            limit: number;
            /**
             * Format: uint32
             * @description Tokens left in the bucket.
             */
            remaining: number;
            /**
             * Format: date-time
             * @description When the bucket is full again.
             */
            reset_at: string;
        };
        /**
         * @description What a ticket is about.
         * @enum {string}
         */
        Category: "connection" | "delivery" | "webhooks" | "billing" | "other";
        /** @description A channel. All fields but `status_reason` are always present. */
        Channel: {
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
            /** @description Phone number as digits. */
            phone_number: string | null;
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
        /** @description A chat. */
        Chat: {
            /** @description Whether the chat is archived. */
            archived: boolean;
            /**
             * Format: uint32
             * @description Seconds after which messages disappear; `0` for never.
             */
            ephemeral_expiration: number;
            /** @description Id. */
            id: string;
            /**
             * Format: int64
             * @description Time of the last message in Unix seconds; `null` if there is none.
             */
            last_message_at: number | null;
            /**
             * Format: int64
             * @description Time until which the chat is muted, in Unix seconds; `0` for ever, `null` if it is not muted.
             */
            muted_until: number | null;
            /** @description Whether it is pinned. */
            pinned: boolean;
            /** @description Whether the chat has unread messages or is marked as unread. */
            unread: boolean;
        };
        /**
         * @description The kind of chats whose events an endpoint receives.
         * @enum {string}
         */
        ChatTypeFilter: "all" | "direct_only" | "groups_only";
        Component: {
            /**
             * @description Name.
             * @enum {string}
             */
            name: "api" | "channels" | "webhooks" | "media" | "events";
            /**
             * Format: date-time
             * @description Time since which the component has had this status.
             */
            since: string;
            /**
             * @description Status.
             * @enum {string}
             */
            status: "operational" | "degraded" | "outage";
        };
        /**
         * @description The presence that the channel shows when it has connected.
         * @enum {string}
         */
        ConnectPresence: "available" | "unavailable" | "none";
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
        /** @description The new channel, and its own API key if requested. */
        CreatedChannel: {
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
            /** @description Phone number as digits. */
            phone_number: string | null;
            /** @description API key bound to the channel, with its secret, which is shown only once; absent unless requested. */
            scoped_key?: components["schemas"]["IssuedKey"] | null;
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
        /** @description The new endpoint. Only this response contains the secret that was given. */
        CreatedWebhookEndpoint: {
            /**
             * Format: uuid
             * @description The channel whose events the endpoint receives; `null` for all channels of the account.
             */
            channel_id: string | null;
            /** @description Kind of chats whose events are sent. */
            chat_type_filter: components["schemas"]["ChatTypeFilter"];
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
            /** @description Why the gateway disabled the endpoint; `null` if it did not. */
            disabled_reason: components["schemas"]["DisabledReason"] | null;
            /** @description Whether it is enabled. */
            enabled: boolean;
            /** @description Names of the events. */
            events: components["schemas"]["EventFilter"];
            /**
             * Format: date-time
             * @description Time of the first failure since the last success; `null` if there was none.
             */
            failing_since: string | null;
            /** @description Whether the endpoint has a signing secret of its own. */
            has_custom_signing_secret: boolean;
            /** @description Custom headers of deliveries: names, with masked values. */
            headers: {
                [key: string]: string;
            };
            /**
             * Format: uuid
             * @description Id.
             */
            id: string;
            /**
             * Format: date-time
             * @description Time of the last successful delivery; `null` if there was none.
             */
            last_success_at: string | null;
            /** @description Secret that signs deliveries; `null` for the account's default secret. */
            signing_secret: string | null;
            /**
             * Format: date-time
             * @description Time of the last change.
             */
            updated_at: string;
            /** @description The URL. */
            url: string;
        };
        /** @description Attempt of a webhook delivery. */
        DeliveryAttempt: {
            /**
             * Format: uint64
             * @description Time of the whole attempt, with DNS, TLS and body, in milliseconds.
             */
            elapsed_ms: number;
            /** @description Why the attempt failed; `null` if it succeeded. */
            error: string | null;
            /**
             * Format: uint16
             * @description HTTP status of the receiver; `null` if there was no response.
             */
            http_status: number | null;
            /**
             * Format: uint64
             * @description Time from the request to the first byte of the response, in milliseconds; `0` if there was no response.
             */
            latency_ms: number;
            /**
             * Format: uint32
             * @description Sequence number.
             */
            number: number;
            /** @description Outcome of the action or attempt. */
            outcome: components["schemas"]["Outcome"];
            /** @description IP address that was called; `null` if none was. */
            remote_ip: string | null;
            /** @description First 4,096 characters of the response body; `null` if it is empty or was not stored. */
            response_body: string | null;
            /** @description Headers of the response, at most 20. */
            response_headers: {
                [key: string]: string;
            };
            /**
             * Format: date-time
             * @description Start of the attempt.
             */
            started_at: string;
            /** @description `scheduled` if the attempt was due, `manual` if it was requested. */
            trigger: components["schemas"]["AttemptTrigger"];
        };
        DeliveryRequest: {
            /** @description Body of the request; `null` once it has been removed. */
            body: unknown;
            /** @description Headers: names and values. */
            headers: {
                [key: string]: string;
            };
        };
        /**
         * @description State of a delivery. `exhausted`: no attempts are left. `paused`: due while its endpoint was disabled.
         * @enum {string}
         */
        DeliveryState: "delivered" | "pending" | "in_flight" | "retrying" | "exhausted" | "paused";
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
        /**
         * @description A kind of media that may be fetched when it is received.
         * @enum {string}
         */
        DownloadType: "image" | "video" | "audio" | "document" | "sticker";
        /** @description Counts of deliveries created in the window, their success rate and latencies. */
        EndpointStats: {
            /**
             * Format: uint64
             * @description Deliveries that reached their endpoint.
             */
            delivered: number;
            /**
             * Format: uint64
             * @description Deliveries that were given up.
             */
            exhausted: number;
            /**
             * Format: uint64
             * @description Deliveries that are being attempted.
             */
            in_flight: number;
            /**
             * Format: uint64
             * @description Median latency of successful attempts, in milliseconds; `null` if there was none.
             */
            p50_latency_ms: number | null;
            /**
             * Format: uint64
             * @description 95th percentile of the latency of successful attempts, in milliseconds; `null` if there was none.
             */
            p95_latency_ms: number | null;
            /**
             * Format: uint64
             * @description Deliveries that wait for their endpoint to be enabled.
             */
            paused: number;
            /**
             * Format: uint64
             * @description Deliveries that have not been attempted yet.
             */
            pending: number;
            /**
             * Format: uint64
             * @description Deliveries that failed, and will be attempted again.
             */
            retrying: number;
            /**
             * Format: double
             * @description Share of the delivered among the ended deliveries, from 0 to 1; `null` if none has ended.
             */
            success_rate: number | null;
        };
        /** @description The events that an endpoint gets. Serialised as the interface's list of names. */
        EventFilter: string[];
        /**
         * @description Name of an event.
         * @enum {string}
         */
        EventName: "message.received" | "message.sent" | "message.reaction" | "message.status" | "channel.connected" | "channel.disconnected" | "channel.status" | "qr.updated" | "group.created" | "group.updated" | "group.participant_added" | "group.participant_removed" | "group.admin_promoted" | "group.admin_demoted" | "chat.updated" | "chat.archived" | "chat.pinned" | "presence.updated" | "order.placed" | "order.cancelled" | "cart.updated" | "story.viewed" | "call.offered" | "call.terminated" | "contact.resolved";
        EventType: {
            /** @description What has happened when the event is sent. */
            description: string;
            /** @description An example of the event. */
            example: {
                [key: string]: unknown;
            };
            /** @description Name. */
            name: components["schemas"]["EventName"];
            /** @description JSON Schema of the whole event, the body of a webhook. */
            schema: {
                [key: string]: unknown;
            };
        };
        /** @description How an invited person chooses a password. */
        Invitation: {
            /**
             * Format: date-time
             * @description When it expires.
             */
            expires_at: string;
            /** @description Whether an e-mail is sent to the address. If so, `token` and `url` are `null`: only the e-mail contains them. */
            mailed: boolean;
            /** @description Token for `PUT /v1/auth/password/reset`; `null` if an e-mail is sent. */
            token: string | null;
            /** @description Page on which to choose a password; `null` if an e-mail is sent, or the deployment has no such page. */
            url: string | null;
        };
        InvitedMember: {
            /**
             * Format: date-time
             * @description Time of creation.
             */
            created_at: string;
            /** @description The e-mail address. */
            email: string;
            /**
             * Format: uuid
             * @description Id.
             */
            id: string;
            /** @description How the invited person chooses a password. */
            invitation: components["schemas"]["Invitation"];
            /**
             * Format: date-time
             * @description Time of the member's last login; `null` before the first.
             */
            last_login_at: string | null;
            /** @description Role of the member, which determines the permissions. */
            role: components["schemas"]["Role"];
            /**
             * @description `active`, or `invited` while the member has not chosen a password.
             * @enum {string}
             */
            status: "active" | "invited";
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
        /**
         * @description How an API key was created: with the account, by another key, by a member, or with its channel.
         * @enum {string}
         */
        KeyOrigin: "signup" | "api_key" | "dashboard" | "channel_create";
        /** @description Quantiles of a latency; `null` if nothing was measured. */
        Latencies: {
            /**
             * Format: uint64
             * @description Median, in milliseconds.
             */
            p50: number | null;
            /**
             * Format: uint64
             * @description 95th percentile, in milliseconds.
             */
            p95: number | null;
            /**
             * Format: uint64
             * @description 99th percentile, in milliseconds.
             */
            p99: number | null;
        };
        Limits: {
            /**
             * Format: uuid
             * @description Id of the channel, if there is one.
             */
            channel_id: string | null;
            /** @description Token bucket of the channel; `null` if no channel is named. */
            per_channel: components["schemas"]["BucketLevel"] | null;
            /** @description Token bucket of the account. */
            per_customer: components["schemas"]["BucketLevel"];
            /** @description Always `null`: keys have no bucket of their own. */
            per_key: null;
        };
        /**
         * @description Origin of media.
         * @enum {string}
         */
        MediaDirection: "upload" | "inbound" | "outbound";
        /** @description Media of a message. Every field is always present. */
        MediaRef: {
            /**
             * Format: uint32
             * @description Duration in seconds; `null` if unknown.
             */
            duration_seconds: number | null;
            /**
             * Format: date-time
             * @description Time of expiry, if there is one.
             */
            expires_at: string | null;
            /** @description Name of the file. */
            filename: string | null;
            /**
             * Format: uint32
             * @description Height in pixels; `null` if unknown.
             */
            height: number | null;
            /**
             * Format: uuid
             * @description Id.
             */
            id: string | null;
            /** @description The MIME type, such as `image/png`. */
            mime_type: string;
            /** @description SHA-256 as 64 lower-case hex characters. */
            sha256: string | null;
            /**
             * Format: uint64
             * @description Size in bytes; `null` if unknown.
             */
            size_bytes: number | null;
            /** @description State. */
            state: components["schemas"]["MediaState"];
            /** @description Signed link to the bytes. */
            url: string | null;
            /** @description Whether the media can be viewed only once. */
            view_once: boolean;
            /** @description Whether the media is a voice note. */
            voice: boolean;
            /**
             * Format: uint32
             * @description Width in pixels; `null` if unknown.
             */
            width: number | null;
        };
        /**
         * @description Whether the bytes are available. `gone`: retention has ended. `skipped`: not downloaded automatically.
         * @enum {string}
         */
        MediaState: "ready" | "failed" | "pending" | "gone" | "skipped";
        /** @description Stored media with a link to its bytes. */
        MediaUpload: {
            /**
             * Format: date-time
             * @description Time of creation.
             */
            created_at: string;
            /** @description Origin: uploaded (`upload`), received (`inbound`), or fetched for one send (`outbound`). */
            direction: components["schemas"]["MediaDirection"];
            /**
             * Format: date-time
             * @description Time of expiry, if there is one.
             */
            expires_at: string;
            /** @description Name of the file. */
            filename: string | null;
            /**
             * Format: uuid
             * @description Id.
             */
            id: string;
            /** @description The MIME type, such as `image/png`. */
            mime_type: string;
            /** @description SHA-256 as 64 lower-case hex characters. */
            sha256: string | null;
            /**
             * Format: uint64
             * @description Size in bytes; `null` if unknown.
             */
            size_bytes: number | null;
            /** @description The URL. */
            url: string;
        };
        Member: {
            /**
             * Format: date-time
             * @description Time of creation.
             */
            created_at: string;
            /** @description The e-mail address. */
            email: string;
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
            /**
             * @description `active`, or `invited` while the member has not chosen a password.
             * @enum {string}
             */
            status: "active" | "invited";
        };
        /** @description Webhook delivery that carried a message. */
        MessageDelivery: {
            /**
             * Format: uint32
             * @description Number of attempts so far.
             */
            attempt_count: number;
            /**
             * Format: date-time
             * @description Time of the delivery; `null` if it was not delivered.
             */
            delivered_at: string | null;
            /**
             * Format: uuid
             * @description Id of the webhook endpoint, if there is one.
             */
            endpoint_id: string;
            /** @description Name of the event. */
            event: components["schemas"]["EventName"];
            /** @description Id of the event: `evt_` and a ULID, by which receivers drop repeated deliveries. */
            event_id: string;
            /**
             * Format: uuid
             * @description Id.
             */
            id: string;
            /**
             * Format: date-time
             * @description Start of the last attempt; `null` if there was none.
             */
            last_attempt_at: string | null;
            /**
             * Format: uint16
             * @description HTTP status of the last attempt; `null` if there was no response.
             */
            last_http_status: number | null;
            /**
             * Format: date-time
             * @description Time of the next attempt; `null` if none is scheduled.
             */
            next_attempt_at: string | null;
            /** @description State. */
            state: components["schemas"]["DeliveryState"];
        };
        /** @description Why a message failed. */
        MessageError: {
            /** @description Stable code, for programs. */
            code: string;
            /** @description Explanation, for people. */
            message: string;
        };
        /** @description Identifies a message by its chat, its id, and whether the channel sent it. */
        MessageKey: {
            /** @description Whether the channel itself sent the message. */
            from_me: boolean;
            /** @description Id of the message in the network; `3EB0` and 36 upper-case hex characters if the gateway created it. */
            id: string;
            /** @description Address of the chat that contains the message. */
            remote_jid: string;
        };
        MessageMetrics: {
            /**
             * Format: uint64
             * @description Messages received.
             */
            inbound: number;
            /** @description Outbound messages. */
            outbound: components["schemas"]["OutboundMetrics"];
        };
        /**
         * @description Status of a stored message; that of an outbound one only moves forward.
         * @enum {string}
         */
        MessageStatus: "queued" | "sent" | "delivered" | "read" | "played" | "failed" | "received";
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
        Metrics: {
            /** @description Present number of channels by status. */
            channels: {
                [key: string]: number;
            };
            /**
             * Format: uint64
             * @description Bytes of media received and sent.
             */
            media_bytes: number;
            /** @description Messages in the window. */
            messages: components["schemas"]["MessageMetrics"];
            /** @description Time from a send to its acceptance by the network, in milliseconds. */
            send_latency_ms: components["schemas"]["Latencies"];
            /**
             * Format: date-time
             * @description Start of the window.
             */
            since: string;
            /** @description Webhook deliveries in the window. */
            webhooks: components["schemas"]["WebhookMetrics"];
            /**
             * @description Time window of the counts.
             * @enum {string}
             */
            window: "1h" | "24h" | "7d" | "30d";
        };
        Nodes: {
            /**
             * Format: uint
             * @description Number of ready nodes.
             */
            ready: number;
            /**
             * Format: uint
             * @description Total number.
             */
            total: number;
        };
        OutboundMetrics: {
            /**
             * Format: uint64
             * @description Sends that failed.
             */
            failed: number;
            /**
             * Format: uint64
             * @description Messages queued at present.
             */
            queued: number;
            /**
             * Format: uint64
             * @description Sends that the network accepted.
             */
            sent: number;
        };
        /**
         * @description How an attempt ended.
         * @enum {string}
         */
        Outcome: "success" | "timeout" | "dns" | "connect" | "tls" | "redirect" | "http" | "blocked" | "endpoint_deleted" | "interrupted";
        PairCode: {
            /** @description The code to enter on the phone. */
            code: string;
            /**
             * Format: date-time
             * @description Time of expiry, if there is one.
             */
            expires_at: string;
            /** @description Phone number as digits. */
            phone_number: string;
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
        /** @description A QR code for pairing, as an image and as its content. */
        Qr: {
            /**
             * Format: date-time
             * @description Time of expiry, if there is one.
             */
            expires_at: string;
            /** @description The QR code: a PNG image as a data URL. */
            qr: string;
            /** @description The content of the QR code. */
            raw: string;
        };
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
        /**
         * @description Reason for the status of a channel.
         * @enum {string}
         */
        Reason: "created" | "qr_requested" | "connect_requested" | "paired" | "login_ok" | "network" | "worker_lost" | "rebalance" | "qr_timeout" | "pairing_refused" | "reconnect_budget" | "no_worker" | "logout" | "session_invalidated" | "kicked_other_device" | "stream_replaced_loop" | "client_outdated" | "auth_state" | "crash_loop" | "user" | "admin" | "banned" | "restored";
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
        /** @description The bounds of the pause between two sends, in milliseconds. */
        SendDelay: {
            /**
             * Format: uint32
             * @description Longest pause in milliseconds.
             */
            max: number;
            /**
             * Format: uint32
             * @description Shortest pause in milliseconds.
             */
            min: number;
        };
        /** @description Response to a send. */
        SentMessage: {
            /** @description The caller's own reference, which the response and `message.sent` repeat. */
            client_ref: string | null;
            /** @description Id of the message in the network; `3EB0` and 36 upper-case hex characters if the gateway created it. */
            message_id: string;
            /** @description `sent` if the network has accepted the message, `queued` if it has not yet. */
            status: components["schemas"]["SentStatus"];
            /** @description Address of the recipient. */
            to: string;
        };
        /** @enum {string} */
        SentStatus: "sent" | "queued";
        Session: {
            /**
             * Format: date-time
             * @description Time of creation.
             */
            created_at: string;
            /** @description Whether the request belongs to this session. */
            current: boolean;
            /**
             * Format: date-time
             * @description Time when the session ends unless its tokens are refreshed before.
             */
            expires_at: string;
            /**
             * Format: uuid
             * @description Id.
             */
            id: string;
            /**
             * Format: date-time
             * @description Time when the session's tokens were last refreshed.
             */
            refreshed_at: string;
        };
        /** @description Settings of a channel. Every field is always present. */
        Settings: {
            /**
             * @description Whether the channel is shown as available while it is connected.
             * @default false
             */
            always_online: boolean;
            /**
             * Format: uint64
             * @description Size in bytes above which received media is not fetched at once.
             * @default 26214400
             */
            auto_download_max_bytes: number;
            /**
             * @description Whether media is fetched when it is received, and not only on request.
             * @default true
             */
            auto_download_media: boolean;
            /**
             * @description Types of received media that are fetched at once.
             * @default [
             *       "image",
             *       "video",
             *       "audio",
             *       "document",
             *       "sticker"
             *     ]
             */
            auto_download_types: components["schemas"]["DownloadType"][];
            /**
             * @description The name of the linked device on the phone, from the next pairing on.
             * @default Gateway
             */
            device_name: string;
            /**
             * @description Whether `message.sent` is also sent for messages that the channel's own phone sent.
             * @default false
             */
            emit_device_sent: boolean;
            /**
             * Format: uint32
             * @description Days for which messages are kept; `0` stores nothing, `null` is the deployment's default.
             * @default null
             */
            history_retention_days: number | null;
            /**
             * @description Whether to ignore broadcast lists.
             * @default true
             */
            ignore_broadcasts: boolean;
            /**
             * @description Whether messages in groups are only acknowledged: not stored, and without events.
             * @default false
             */
            ignore_groups: boolean;
            /**
             * @description Whether to ignore newsletters.
             * @default true
             */
            ignore_newsletters: boolean;
            /**
             * @description Whether to ignore others' stories.
             * @default true
             */
            ignore_stories: boolean;
            /**
             * @description Whether texts show a preview of their first link unless the send says otherwise.
             * @default true
             */
            link_preview: boolean;
            /**
             * @description Whether read receipts are sent as soon as messages are received.
             * @default false
             */
            mark_read_on_receive: boolean;
            /**
             * Format: uint32
             * @description Days for which media is kept; `null` for the deployment's default.
             * @default null
             */
            media_retention_days: number | null;
            /**
             * @description Presence that is shown when the channel connects.
             * @default unavailable
             */
            presence_on_connect: components["schemas"]["ConnectPresence"];
            /**
             * @description Proxy of the channel's sessions from the next connection on, password shown as `***`; `null` for none.
             * @default null
             */
            proxy_url: string | null;
            /**
             * @description Message that is sent to a rejected caller; `null` for none.
             * @default null
             */
            reject_call_message: string | null;
            /**
             * @description Whether calls are rejected.
             * @default false
             */
            reject_calls: boolean;
            /**
             * @description Pause between two sends in milliseconds, chosen at random for each; `null` for none.
             * @default null
             */
            send_delay_ms: components["schemas"]["SendDelay"] | null;
            /**
             * @description Whether typing is shown in the chat before a text is sent.
             * @default false
             */
            simulate_typing: boolean;
            /**
             * @description Whether messages are stored with their bodies, and not only as metadata.
             * @default true
             */
            store_bodies: boolean;
            /**
             * @description Whether the phone is asked for all of its history at the next pairing.
             * @default false
             */
            sync_full_history: boolean;
            /**
             * Format: date-time
             * @description Time of the last change of the settings; the value for `If-Match`.
             * @default 1970-01-01T00:00:00.000Z
             */
            updated_at: string;
        };
        SigningSecret: {
            /** @description Whether the secret is the account's default secret. */
            is_default: boolean;
            /** @description Secret that signs deliveries; `null` for the account's default secret. */
            signing_secret: string;
        };
        /**
         * @description Origin of a message.
         * @enum {string}
         */
        Source: "api" | "device" | "network";
        /**
         * @description Status of a channel.
         * @enum {string}
         */
        Status: "pending" | "qr" | "connecting" | "reconnecting" | "connected" | "disconnected" | "logged_out" | "stopped_by_user" | "disabled_by_admin" | "error" | "failed";
        /** @description Change of a channel's status. */
        StatusChange: {
            /**
             * Format: date-time
             * @description Time of the change.
             */
            at: string;
            /** @description Details of a ban whose end the network has announced; otherwise absent. */
            details?: components["schemas"]["StatusDetails"] | null;
            /**
             * Format: uint64
             * @description Term of the owner's leadership, which fences off earlier owners.
             */
            epoch: number;
            /** @description Status before the change. */
            from: components["schemas"]["Status"];
            /**
             * Format: uint64
             * @description Node that owned the channel.
             */
            node_id: number;
            /** @description Reason, if there is one. */
            reason: components["schemas"]["Reason"];
            /** @description Status after the change. */
            to: components["schemas"]["Status"];
        };
        /** @description Details from the network about a status. */
        StatusDetails: {
            /**
             * Format: date-time
             * @description Time until which the number is banned.
             */
            ban_until: string;
        };
        StatusSummary: {
            /** @description The parts of the service. */
            components: components["schemas"]["Component"][];
            /** @description The nodes. */
            nodes: components["schemas"]["Nodes"];
            /**
             * @description Status.
             * @enum {string}
             */
            status: "operational" | "degraded" | "outage";
            /**
             * Format: date-time
             * @description Time of the last change.
             */
            updated_at: string;
        };
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
        /** @description Stored message; every field is always present. */
        StoredMessage: {
            /**
             * Format: uuid
             * @description Id of the channel, if there is one.
             */
            channel_id: string;
            /** @description The conversation: the other person's address, or the group's. */
            chat_id: string;
            /** @description The caller's own reference, which the response and `message.sent` repeat. */
            client_ref: string | null;
            /** @description Further fields, such as a location, contacts, a poll, an order or receipts; `null` if there are none. */
            content: unknown;
            /** @description Value of the header `X-Gateway-Correlation-Id`. */
            correlation_id: string;
            /**
             * Format: date-time
             * @description Time of creation.
             */
            created_at: string;
            /** @description Whether it was received or sent. */
            direction: components["schemas"]["Direction"];
            /** @description Emoji of a reaction, empty if it was removed; `null` for other types. */
            emoji: string | null;
            /** @description Why the message failed; `null` unless `status` is `failed`. */
            error: components["schemas"]["MessageError"] | null;
            /** @description Author, buyer or caller: the phone address if known, otherwise the linked-device address. */
            from: string;
            /** @description Linked-device address of the sender; `null` if the network gave none. */
            from_lid: string | null;
            /** @description Phone address of the sender; `null` if unknown. */
            from_phone: string | null;
            /** @description Whether `from` is a phone address. */
            from_resolved: boolean;
            /**
             * Format: uuid
             * @description Id.
             */
            id: string;
            /** @description Whether the conversation is a group. */
            is_group: boolean;
            /** @description The media, if there is any. */
            media: components["schemas"]["MediaRef"] | null;
            /** @description Id of the message in the network; `3EB0` and 36 upper-case hex characters if the gateway created it. */
            message_id: string;
            /** @description Message that this one refers to, if there is one. */
            message_key: components["schemas"]["MessageKey"] | null;
            /**
             * Format: date-time
             * @description Time of the message in the network.
             */
            occurred_at: string;
            /** @description Author of the message; only in groups. */
            participant: string | null;
            /** @description Name that the sender uses; `null` if unknown. */
            push_name: string | null;
            /** @description Id of the message that this one replies to; `null` if it is no reply. */
            quoted_message_id: string | null;
            /** @description `X-Request-Id` of the send; `null` if the message was not sent through the API. */
            request_id: string | null;
            /** @description Origin: sent through the API (`api`), sent from the phone (`device`), or received (`network`). */
            source: components["schemas"]["Source"];
            /** @description Status. */
            status: components["schemas"]["MessageStatus"];
            /**
             * Format: date-time
             * @description Time when the message reached this status.
             */
            status_at: string;
            /** @description Text, caption, or new text of an edit; `null` if there is none, or if it was not stored. */
            text: string | null;
            /** @description Address of the recipient; the channel's own for direct messages that it received. */
            to: string;
            /** @description Type. */
            type: string;
            /** @description Webhook deliveries that carried the message. */
            webhook_deliveries: components["schemas"]["MessageDelivery"][];
        };
        TestError: {
            /** @description Stable code, for programs. */
            code: string;
            /** @description Explanation, for people. */
            message: string;
        };
        /** @description Result of a webhook test. */
        TestResult: {
            /**
             * Format: uint64
             * @description Time of the whole attempt, with DNS, TLS and body, in milliseconds.
             */
            elapsed_ms: number;
            /**
             * Format: uuid
             * @description Endpoint that was tested, or the only one with the tested URL; `null` for none or several.
             */
            endpoint_id: string | null;
            /** @description Details of the error, if there was one. */
            error: components["schemas"]["TestError"] | null;
            /**
             * Format: uint16
             * @description HTTP status of the receiver; `0` if there was no response.
             */
            http_status: number;
            /**
             * Format: uint64
             * @description Time from the request to the first byte of the response, in milliseconds; `0` if there was no response.
             */
            latency_ms: number;
            /** @description Whether the receiver accepted the test event. */
            ok: boolean;
            /**
             * @description Outcome of the action or attempt.
             * @enum {string}
             */
            outcome: "success" | "failure";
            /**
             * @description Whose secret signed the request.
             * @enum {string}
             */
            signed_with: "endpoint" | "gateway_default";
            /** @description HTTP status of the receiver in a test of a URL; the same as `outcome` in a test of an endpoint. */
            status: string | number;
        };
        /**
         * @description Status of a ticket: `open` waits for the support, `waiting` for the customer; `closed` accepts no more messages.
         * @enum {string}
         */
        TicketStatus: "open" | "waiting" | "solved" | "closed";
        /** @description A ticket, without its messages. */
        TicketView: {
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
        /** @description Usage of the account in a day or an hour, or of one of its channels in a day. */
        Usage: {
            /**
             * Format: uuid
             * @description The channel; `null` unless rows are grouped by channel.
             */
            channel_id: string | null;
            /**
             * Format: date
             * @description The day in UTC.
             */
            date: string;
            /**
             * Format: uint64
             * @description Sends that failed.
             */
            failed: number;
            /**
             * Format: date-time
             * @description Start of the hour; absent unless rows are grouped by hour.
             */
            hour?: string | null;
            /**
             * Format: uint64
             * @description Bytes of media received and sent.
             */
            media_bytes: number;
            /**
             * Format: uint64
             * @description Messages received.
             */
            received: number;
            /**
             * Format: uint64
             * @description Sends that the network accepted.
             */
            sent: number;
            /**
             * Format: uint64
             * @description Webhook deliveries that reached their endpoint.
             */
            webhook_deliveries: number;
        };
        /** @description Webhook delivery. */
        WebhookDelivery: {
            /**
             * Format: uint32
             * @description Number of attempts so far.
             */
            attempt_count: number;
            /**
             * Format: uuid
             * @description Id of the channel, if there is one.
             */
            channel_id: string;
            /**
             * Format: date-time
             * @description Time of creation.
             */
            created_at: string;
            /**
             * Format: date-time
             * @description Time of the delivery; `null` if it was not delivered.
             */
            delivered_at: string | null;
            /**
             * Format: uuid
             * @description Id of the webhook endpoint, if there is one.
             */
            endpoint_id: string;
            /** @description Name of the event. */
            event: components["schemas"]["EventName"];
            /** @description Id of the event: `evt_` and a ULID, by which receivers drop repeated deliveries. */
            event_id: string;
            /**
             * Format: uuid
             * @description Id.
             */
            id: string;
            /**
             * Format: date-time
             * @description Start of the last attempt; `null` if there was none.
             */
            last_attempt_at: string | null;
            /**
             * Format: uint16
             * @description HTTP status of the last attempt; `null` if there was no response.
             */
            last_http_status: number | null;
            /** @description Outcome of the last attempt; `null` if there was none. */
            last_outcome: components["schemas"]["Outcome"] | null;
            /**
             * Format: uint32
             * @description Number of attempts after which the delivery is given up.
             */
            max_attempts: number;
            /** @description Id of the message in the network; `null` if the event is not about a message. */
            message_id: string | null;
            /**
             * Format: date-time
             * @description Time of the next attempt; `null` unless `state` is `pending` or `retrying`.
             */
            next_attempt_at: string | null;
            /** @description State. */
            state: components["schemas"]["DeliveryState"];
            /** @description URL of the endpoint when the delivery was created. */
            url: string;
        };
        /** @description A delivery with its request and attempts. */
        WebhookDeliveryDetail: {
            /**
             * Format: uint32
             * @description Number of attempts so far.
             */
            attempt_count: number;
            /** @description The attempts, oldest first. */
            attempts: components["schemas"]["DeliveryAttempt"][];
            /**
             * Format: uuid
             * @description Id of the channel, if there is one.
             */
            channel_id: string;
            /**
             * Format: date-time
             * @description Time of creation.
             */
            created_at: string;
            /**
             * Format: date-time
             * @description Time of the delivery; `null` if it was not delivered.
             */
            delivered_at: string | null;
            /**
             * Format: uuid
             * @description Id of the webhook endpoint, if there is one.
             */
            endpoint_id: string;
            /** @description Name of the event. */
            event: components["schemas"]["EventName"];
            /** @description Id of the event: `evt_` and a ULID, by which receivers drop repeated deliveries. */
            event_id: string;
            /**
             * Format: uuid
             * @description Id.
             */
            id: string;
            /**
             * Format: date-time
             * @description Start of the last attempt; `null` if there was none.
             */
            last_attempt_at: string | null;
            /**
             * Format: uint16
             * @description HTTP status of the last attempt; `null` if there was no response.
             */
            last_http_status: number | null;
            /** @description Outcome of the last attempt; `null` if there was none. */
            last_outcome: components["schemas"]["Outcome"] | null;
            /**
             * Format: uint32
             * @description Number of attempts after which the delivery is given up.
             */
            max_attempts: number;
            /** @description Id of the message in the network; `null` if the event is not about a message. */
            message_id: string | null;
            /**
             * Format: date-time
             * @description Time of the next attempt; `null` unless `state` is `pending` or `retrying`.
             */
            next_attempt_at: string | null;
            /** @description The request that is sent to the receiver. */
            request: components["schemas"]["DeliveryRequest"];
            /** @description State. */
            state: components["schemas"]["DeliveryState"];
            /** @description URL of the endpoint when the delivery was created. */
            url: string;
        };
        /** @description A webhook endpoint without its secret. */
        WebhookEndpoint: {
            /**
             * Format: uuid
             * @description The channel whose events the endpoint receives; `null` for all channels of the account.
             */
            channel_id: string | null;
            /** @description Kind of chats whose events are sent. */
            chat_type_filter: components["schemas"]["ChatTypeFilter"];
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
            /** @description Why the gateway disabled the endpoint; `null` if it did not. */
            disabled_reason: components["schemas"]["DisabledReason"] | null;
            /** @description Whether it is enabled. */
            enabled: boolean;
            /** @description Names of the events. */
            events: components["schemas"]["EventFilter"];
            /**
             * Format: date-time
             * @description Time of the first failure since the last success; `null` if there was none.
             */
            failing_since: string | null;
            /** @description Whether the endpoint has a signing secret of its own. */
            has_custom_signing_secret: boolean;
            /** @description Custom headers of deliveries: names, with masked values. */
            headers: {
                [key: string]: string;
            };
            /**
             * Format: uuid
             * @description Id.
             */
            id: string;
            /**
             * Format: date-time
             * @description Time of the last successful delivery; `null` if there was none.
             */
            last_success_at: string | null;
            /**
             * Format: date-time
             * @description Time of the last change.
             */
            updated_at: string;
            /** @description The URL. */
            url: string;
        };
        WebhookMetrics: {
            /**
             * Format: uint64
             * @description Deliveries that reached their endpoint.
             */
            delivered: number;
            /**
             * Format: uint64
             * @description Deliveries that were given up.
             */
            exhausted: number;
            /** @description Time from the request to the start of the receiver's answer, in milliseconds. */
            latency_ms: components["schemas"]["Latencies"];
            /**
             * Format: uint64
             * @description Deliveries that wait for a retry at present.
             */
            retrying: number;
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
