// Written by types.mjs.
export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description The account, with its plan and what it may use. */
        Account: {
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
            /** @description Its name. */
            name: string;
            /** @description What the account may use. */
            plan: components["schemas"]["Plan"];
            /** @description What of the plan's quotas is in use; shown to the account itself. */
            storage?: components["schemas"]["Storage"] | null;
            /** @description By its name in the IANA database, such as `Europe/Berlin`. */
            timezone: string;
        };
        /** @description An API key without its secret. */
        ApiKey: {
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
            /**
             * @description The status.
             * @enum {string}
             */
            status: "active" | "expired" | "revoked";
        };
        /**
         * @description Why an attempt was made.
         * @enum {string}
         */
        AttemptTrigger: "scheduled" | "manual";
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
        /** @description An entry as the interface shows it. */
        AuditEntry: {
            /** @description What was done, such as `key.issued`. */
            action: string;
            /** @description Who did it. */
            actor: components["schemas"]["AuditActor"];
            /**
             * Format: date-time
             * @description When it was created.
             */
            created_at: string;
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
        BucketLevel: {
            /**
             * Format: uint32
             * @description The bucket's capacity.
             */
            limit: number;
            /**
             * Format: uint32
             * @description Tokens that are left.
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
        /** @description A channel; all fields but `status_reason` always present. */
        Channel: {
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
            /** @description The phone number, as digits. */
            phone_number: string | null;
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
        /** @description A chat as the interface shows it. */
        Chat: {
            /** @description Whether the chat is archived. */
            archived: boolean;
            /**
             * Format: uint32
             * @description Seconds after which messages disappear; 0 for never.
             */
            ephemeral_expiration: number;
            /** @description Its id. */
            id: string;
            /**
             * Format: int64
             * @description Unix seconds.
             */
            last_message_at: number | null;
            /**
             * Format: int64
             * @description `null`: not muted; 0: for ever; else Unix seconds.
             */
            muted_until: number | null;
            /** @description Whether it is pinned. */
            pinned: boolean;
            /** @description Whether it has unread messages, or is marked as unread. */
            unread: boolean;
        };
        /**
         * @description An endpoint's `chat_type_filter`.
         * @enum {string}
         */
        ChatTypeFilter: "all" | "direct_only" | "groups_only";
        Component: {
            /**
             * @description Its name.
             * @enum {string}
             */
            name: "api" | "channels" | "webhooks" | "media" | "events";
            /**
             * Format: date-time
             * @description From this time on.
             */
            since: string;
            /**
             * @description The status.
             * @enum {string}
             */
            status: "operational" | "degraded" | "outage";
        };
        /**
         * @description The presence that the channel shows when it has connected.
         * @enum {string}
         */
        ConnectPresence: "available" | "unavailable" | "none";
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
        /** @description The channel, and its own key when one was asked for. */
        CreatedChannel: {
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
            /** @description The phone number, as digits. */
            phone_number: string | null;
            /** @description The key of the channel, when one was asked for; its secret is shown once. */
            scoped_key?: components["schemas"]["IssuedKey"] | null;
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
        /** @description Only the response to a creation contains the secret that was given. */
        CreatedWebhookEndpoint: {
            /**
             * Format: uuid
             * @description The channel whose events it receives; null for those of all channels of the account.
             */
            channel_id: string | null;
            /** @description The kind of chats whose events are sent. */
            chat_type_filter: components["schemas"]["ChatTypeFilter"];
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
            /** @description Why the gateway switched it off. */
            disabled_reason: components["schemas"]["DisabledReason"] | null;
            /** @description Whether it is on. */
            enabled: boolean;
            /** @description The names of events. */
            events: components["schemas"]["EventFilter"];
            /**
             * Format: date-time
             * @description Since when no delivery has succeeded.
             */
            failing_since: string | null;
            /** @description Whether it has a secret of its own. */
            has_custom_signing_secret: boolean;
            /** @description Names with their values masked. */
            headers: {
                [key: string]: string;
            };
            /**
             * Format: uuid
             * @description Its id.
             */
            id: string;
            /**
             * Format: date-time
             * @description When a delivery last succeeded.
             */
            last_success_at: string | null;
            /** @description The secret that signs deliveries; null for the account's default secret. */
            signing_secret: string | null;
            /**
             * Format: date-time
             * @description When it last changed.
             */
            updated_at: string;
            /** @description The URL. */
            url: string;
        };
        /** @description One attempt. */
        DeliveryAttempt: {
            /**
             * Format: uint64
             * @description The whole attempt, with DNS, TLS and body, in milliseconds.
             */
            elapsed_ms: number;
            /** @description What went wrong. */
            error: string | null;
            /**
             * Format: uint16
             * @description The receiver's status; null or 0 when there was no answer.
             */
            http_status: number | null;
            /**
             * Format: uint64
             * @description From the request to the first byte of the answer, in milliseconds.
             */
            latency_ms: number;
            /**
             * Format: uint32
             * @description Its number.
             */
            number: number;
            /** @description How it ended. */
            outcome: components["schemas"]["Outcome"];
            /** @description The address that was called. */
            remote_ip: string | null;
            /** @description What the receiver answered, cut after 4,096 characters. */
            response_body: string | null;
            /** @description The headers of the receiver's answer, 20 at most. */
            response_headers: {
                [key: string]: string;
            };
            /**
             * Format: date-time
             * @description When it began.
             */
            started_at: string;
            /** @description Whether it was due, or asked for by hand. */
            trigger: components["schemas"]["AttemptTrigger"];
        };
        DeliveryRequest: {
            /** @description `null` when it has been removed already. */
            body: unknown;
            /** @description Names and values of headers. */
            headers: {
                [key: string]: string;
            };
        };
        /**
         * @description The state of a delivery.
         * @enum {string}
         */
        DeliveryState: "delivered" | "pending" | "in_flight" | "retrying" | "exhausted" | "paused";
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
        /**
         * @description A kind of media that may be fetched when it is received.
         * @enum {string}
         */
        DownloadType: "image" | "video" | "audio" | "document" | "sticker";
        /** @description Counts are of deliveries made in the window; the rate and the latencies are `null` while nothing has ended. */
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
             * @description Half of the attempts took no longer, in milliseconds.
             */
            p50_latency_ms: number | null;
            /**
             * Format: uint64
             * @description 95 of 100 attempts took no longer, in milliseconds.
             */
            p95_latency_ms: number | null;
            /**
             * Format: uint64
             * @description Deliveries that wait for their endpoint to be enabled.
             */
            paused: number;
            /**
             * Format: uint64
             * @description Deliveries that were not attempted yet.
             */
            pending: number;
            /**
             * Format: uint64
             * @description Deliveries that failed and will be attempted again.
             */
            retrying: number;
            /**
             * Format: double
             * @description Of the attempts that ended; null when there was none.
             */
            success_rate: number | null;
        };
        /** @description The events that an endpoint gets. Serialised as the interface's list of names. */
        EventFilter: string[];
        /**
         * @description The names of events.
         * @enum {string}
         */
        EventName: "message.received" | "message.sent" | "message.reaction" | "message.status" | "channel.connected" | "channel.disconnected" | "channel.status" | "qr.updated" | "group.created" | "group.updated" | "group.participant_added" | "group.participant_removed" | "group.admin_promoted" | "group.admin_demoted" | "chat.updated" | "chat.archived" | "chat.pinned" | "presence.updated" | "order.placed" | "order.cancelled" | "cart.updated" | "story.viewed" | "call.offered" | "call.terminated" | "contact.resolved";
        EventType: {
            /** @description What has happened when it is sent. */
            description: string;
            /** @description An example of a body. */
            example: {
                [key: string]: unknown;
            };
            /** @description Its name. */
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
            /** @description Whether an e-mail is sent to the address. Token and page are null then: only that e-mail has them. */
            mailed: boolean;
            /** @description For `PUT /v1/auth/password/reset`. */
            token: string | null;
            /** @description The page on which a password is chosen, where the deployment has one. */
            url: string | null;
        };
        InvitedMember: {
            /**
             * Format: date-time
             * @description When it was created.
             */
            created_at: string;
            /** @description The e-mail address. */
            email: string;
            /**
             * Format: uuid
             * @description Its id.
             */
            id: string;
            /** @description How an invited person chooses a password. */
            invitation: components["schemas"]["Invitation"];
            /**
             * Format: date-time
             * @description When the member last logged in.
             */
            last_login_at: string | null;
            /** @description What the member may do. */
            role: components["schemas"]["Role"];
            /**
             * @description Whether the member has come, or was invited and has chosen no password yet.
             * @enum {string}
             */
            status: "active" | "invited";
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
        /**
         * @description How an API key was created: with the account, by another key, by a member, or with its channel.
         * @enum {string}
         */
        KeyOrigin: "signup" | "api_key" | "dashboard" | "channel_create";
        /** @description `null` while nothing was measured. */
        Latencies: {
            /**
             * Format: uint64
             * @description Half were not above it, in milliseconds.
             */
            p50: number | null;
            /**
             * Format: uint64
             * @description 95 of 100 were not above it, in milliseconds.
             */
            p95: number | null;
            /**
             * Format: uint64
             * @description 99 of 100 were not above it, in milliseconds.
             */
            p99: number | null;
        };
        Limits: {
            /**
             * Format: uuid
             * @description The channel.
             */
            channel_id: string | null;
            /** @description The channel's bucket; null when no channel is named. */
            per_channel: components["schemas"]["BucketLevel"] | null;
            /** @description The account's bucket. */
            per_customer: components["schemas"]["BucketLevel"];
            /** @description Keys have no bucket of their own. */
            per_key: null;
        };
        /**
         * @description Where media came from.
         * @enum {string}
         */
        MediaDirection: "upload" | "inbound" | "outbound";
        /** @description Media as events and history show it; every field always present. */
        MediaRef: {
            /**
             * Format: uint32
             * @description How long it plays.
             */
            duration_seconds: number | null;
            /**
             * Format: date-time
             * @description When it expires.
             */
            expires_at: string | null;
            /** @description The name of the file. */
            filename: string | null;
            /**
             * Format: uint32
             * @description Pixels.
             */
            height: number | null;
            /**
             * Format: uuid
             * @description Its id.
             */
            id: string | null;
            /** @description The MIME type, such as `image/png`. */
            mime_type: string;
            /** @description A SHA-256 in 64 lower-case hex characters. */
            sha256: string | null;
            /**
             * Format: uint64
             * @description Bytes, where that is known.
             */
            size_bytes: number | null;
            /** @description Its state. */
            state: components["schemas"]["MediaState"];
            /** @description A signed link. */
            url: string | null;
            /** @description Whether it can be viewed only once. */
            view_once: boolean;
            /** @description Whether it is a voice note. */
            voice: boolean;
            /**
             * Format: uint32
             * @description Pixels.
             */
            width: number | null;
        };
        /**
         * @description Whether the bytes are available.
         * @enum {string}
         */
        MediaState: "ready" | "failed" | "pending" | "gone" | "skipped";
        /** @description The response to an upload. */
        MediaUpload: {
            /**
             * Format: date-time
             * @description When it was created.
             */
            created_at: string;
            /** @description Whether it was received or sent. */
            direction: components["schemas"]["MediaDirection"];
            /**
             * Format: date-time
             * @description When it expires.
             */
            expires_at: string;
            /** @description The name of the file. */
            filename: string | null;
            /**
             * Format: uuid
             * @description Its id.
             */
            id: string;
            /** @description The MIME type, such as `image/png`. */
            mime_type: string;
            /** @description A SHA-256 in 64 lower-case hex characters. */
            sha256: string | null;
            /**
             * Format: uint64
             * @description Bytes, where that is known.
             */
            size_bytes: number | null;
            /** @description The URL. */
            url: string;
        };
        Member: {
            /**
             * Format: date-time
             * @description When it was created.
             */
            created_at: string;
            /** @description The e-mail address. */
            email: string;
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
            /**
             * @description Whether the member has come, or was invited and has chosen no password yet.
             * @enum {string}
             */
            status: "active" | "invited";
        };
        /** @description A delivery as a history row shows it. */
        MessageDelivery: {
            /**
             * Format: uint32
             * @description Attempts so far.
             */
            attempt_count: number;
            /**
             * Format: date-time
             * @description When it was delivered.
             */
            delivered_at: string | null;
            /**
             * Format: uuid
             * @description The webhook endpoint.
             */
            endpoint_id: string;
            /** @description The event's name. */
            event: components["schemas"]["EventName"];
            /** @description `evt_` and a ULID: the key by which receivers drop repeats. */
            event_id: string;
            /**
             * Format: uuid
             * @description Its id.
             */
            id: string;
            /**
             * Format: date-time
             * @description When it was last attempted.
             */
            last_attempt_at: string | null;
            /**
             * Format: uint16
             * @description The receiver's status at the last attempt; null when there was no answer.
             */
            last_http_status: number | null;
            /**
             * Format: date-time
             * @description When it is attempted next.
             */
            next_attempt_at: string | null;
            /** @description Its state. */
            state: components["schemas"]["DeliveryState"];
        };
        /** @description Why a message failed. */
        MessageError: {
            /** @description A stable code, for programs. */
            code: string;
            /** @description An explanation, for people. */
            message: string;
        };
        /** @description Names an existing message: its chat, its id, and whose it is. */
        MessageKey: {
            /** @description Whether the channel itself sent it. */
            from_me: boolean;
            /** @description A message id of the network: `3EB0` and 36 upper-case hex characters when minted here. */
            id: string;
            /** @description The conversation that it is in. */
            remote_jid: string;
        };
        MessageMetrics: {
            /**
             * Format: uint64
             * @description Messages that were received.
             */
            inbound: number;
            /** @description Messages that were sent. */
            outbound: components["schemas"]["OutboundMetrics"];
        };
        /**
         * @description The status of a stored message; an outbound one only moves forward.
         * @enum {string}
         */
        MessageStatus: "queued" | "sent" | "delivered" | "read" | "played" | "failed" | "received";
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
        Metrics: {
            /** @description At this moment, by status. */
            channels: {
                [key: string]: number;
            };
            /**
             * Format: uint64
             * @description Bytes of media, in and out.
             */
            media_bytes: number;
            /** @description Messages of the window. */
            messages: components["schemas"]["MessageMetrics"];
            /** @description From a send to its acceptance by the network. */
            send_latency_ms: components["schemas"]["Latencies"];
            /**
             * Format: date-time
             * @description When the window begins.
             */
            since: string;
            /** @description Deliveries of the window. */
            webhooks: components["schemas"]["WebhookMetrics"];
            /**
             * @description The time that the figures are about.
             * @enum {string}
             */
            window: "1h" | "24h" | "7d" | "30d";
        };
        Nodes: {
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
        OutboundMetrics: {
            /**
             * Format: uint64
             * @description Sends that failed.
             */
            failed: number;
            /**
             * Format: uint64
             * @description At this moment.
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
            /** @description The code to type on the phone. */
            code: string;
            /**
             * Format: date-time
             * @description When it expires.
             */
            expires_at: string;
            /** @description The phone number, as digits. */
            phone_number: string;
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
        /** @description The code to scan, as a picture and as its text. */
        Qr: {
            /**
             * Format: date-time
             * @description When it expires.
             */
            expires_at: string;
            /** @description The code as a picture: a PNG as a data URL. */
            qr: string;
            /** @description The content of the QR code. */
            raw: string;
        };
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
        /**
         * @description The `reason` of a `channel.status` event.
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
             * @description The longest, in milliseconds.
             */
            max: number;
            /**
             * Format: uint32
             * @description The shortest, in milliseconds.
             */
            min: number;
        };
        /** @description The answer to a send, and where it goes. */
        SentMessage: {
            /** @description The caller's own reference, which is returned in the response and in `message.sent`. */
            client_ref: string | null;
            /** @description A message id of the network: `3EB0` and 36 upper-case hex characters when minted here. */
            message_id: string;
            /** @description `sent` when the network has accepted it, `queued` when that is still to come. */
            status: components["schemas"]["SentStatus"];
            /** @description The recipient: an address, or the digits of a number. */
            to: string;
        };
        /** @enum {string} */
        SentStatus: "sent" | "queued";
        Session: {
            /**
             * Format: date-time
             * @description When it was created.
             */
            created_at: string;
            /** @description Whether it is the one that asks. */
            current: boolean;
            /**
             * Format: date-time
             * @description When it ends, unless it is used.
             */
            expires_at: string;
            /**
             * Format: uuid
             * @description Its id.
             */
            id: string;
            /**
             * Format: date-time
             * @description When its tokens were last exchanged.
             */
            refreshed_at: string;
        };
        /** @description Every field is always present. */
        Settings: {
            /**
             * @description The channel is shown as available for as long as it is connected.
             * @default false
             */
            always_online: boolean;
            /**
             * Format: uint64
             * @description Media above this size is not fetched when it is received.
             * @default 26214400
             */
            auto_download_max_bytes: number;
            /**
             * @description Whether media is fetched when it is received, and not only on request.
             * @default true
             */
            auto_download_media: boolean;
            /**
             * @description The types of media that are fetched when they are received.
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
             * @description Days; 0 stores nothing, `null` is what the deployment keeps.
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
             * @description Whether texts that do not say so themselves show a preview of their first link.
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
             * @description Days; `null` for what the deployment keeps.
             * @default null
             */
            media_retention_days: number | null;
            /**
             * @description The presence that is shown when the channel connects.
             * @default unavailable
             */
            presence_on_connect: components["schemas"]["ConnectPresence"];
            /**
             * @description The proxy of the channel's sessions; its password is shown as `***`. Takes effect at the next connection.
             * @default null
             */
            proxy_url: string | null;
            /**
             * @description The message that is sent to a rejected caller.
             * @default null
             */
            reject_call_message: string | null;
            /**
             * @description Whether calls are rejected.
             * @default false
             */
            reject_calls: boolean;
            /**
             * @description The pause between two sends, in milliseconds; chosen at random for each.
             * @default null
             */
            send_delay_ms: components["schemas"]["SendDelay"] | null;
            /**
             * @description Whether the chat shows typing before a text arrives.
             * @default false
             */
            simulate_typing: boolean;
            /**
             * @description Whether messages are stored with their bodies, and not as metadata only.
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
             * @description When they were last changed: what `If-Match` names.
             * @default 1970-01-01T00:00:00.000Z
             */
            updated_at: string;
        };
        SigningSecret: {
            /** @description Whether it is the account's default secret. */
            is_default: boolean;
            /** @description The secret that signs deliveries; null for the account's default secret. */
            signing_secret: string;
        };
        /**
         * @description Where a row came from.
         * @enum {string}
         */
        Source: "api" | "device" | "network";
        /**
         * @description The eleven statuses of a channel.
         * @enum {string}
         */
        Status: "pending" | "qr" | "connecting" | "reconnecting" | "connected" | "disconnected" | "logged_out" | "stopped_by_user" | "disabled_by_admin" | "error" | "failed";
        /** @description A change of a channel's status, as `GET .../status-history` shows it. */
        StatusChange: {
            /**
             * Format: date-time
             * @description When it happened.
             */
            at: string;
            /** @description Of a ban whose end the network has announced. */
            details?: components["schemas"]["StatusDetails"] | null;
            /**
             * Format: uint64
             * @description The term of the owner's leadership, which fences what an earlier one does.
             */
            epoch: number;
            /** @description The status before. */
            from: components["schemas"]["Status"];
            /**
             * Format: uint64
             * @description The node.
             */
            node_id: number;
            /** @description Why. */
            reason: components["schemas"]["Reason"];
            /** @description The status after. */
            to: components["schemas"]["Status"];
        };
        /** @description What the network said in addition to the reason of a status. */
        StatusDetails: {
            /**
             * Format: date-time
             * @description Until when the number is banned.
             */
            ban_until: string;
        };
        StatusSummary: {
            /** @description The parts of the service. */
            components: components["schemas"]["Component"][];
            /** @description The nodes. */
            nodes: components["schemas"]["Nodes"];
            /**
             * @description The status.
             * @enum {string}
             */
            status: "operational" | "degraded" | "outage";
            /**
             * Format: date-time
             * @description When it last changed.
             */
            updated_at: string;
        };
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
        /** @description A row as the interface shows it: every field always present. */
        StoredMessage: {
            /**
             * Format: uuid
             * @description The channel.
             */
            channel_id: string;
            /** @description The conversation: the other person's address, or the group's. */
            chat_id: string;
            /** @description The caller's own reference, which is returned in the response and in `message.sent`. */
            client_ref: string | null;
            /** @description What else there is of the type: a location, contacts, a poll, an order, receipts. */
            content: unknown;
            /** @description The value of `X-Gateway-Correlation-Id`. */
            correlation_id: string;
            /**
             * Format: date-time
             * @description When it was created.
             */
            created_at: string;
            /** @description Whether it was received or sent. */
            direction: components["schemas"]["Direction"];
            /** @description The emoji; an empty text removes the reaction. */
            emoji: string | null;
            /** @description What went wrong. */
            error: components["schemas"]["MessageError"] | null;
            /** @description Who wrote it: the phone address when it is known, otherwise the linked-device address. */
            from: string;
            /** @description The linked-device address, where the network gave one. */
            from_lid: string | null;
            /** @description The phone address, where it is known. */
            from_phone: string | null;
            /** @description Whether `from` is a phone address. */
            from_resolved: boolean;
            /**
             * Format: uuid
             * @description Its id.
             */
            id: string;
            /** @description Whether the conversation is a group. */
            is_group: boolean;
            /** @description The media, if there is any. */
            media: components["schemas"]["MediaRef"] | null;
            /** @description A message id of the network: `3EB0` and 36 upper-case hex characters when minted here. */
            message_id: string;
            /** @description The message that it refers to. */
            message_key: components["schemas"]["MessageKey"] | null;
            /**
             * Format: date-time
             * @description When it happened, as the network says.
             */
            occurred_at: string;
            /** @description In a group, who wrote it. */
            participant: string | null;
            /** @description The sender's own name for itself. */
            push_name: string | null;
            /** @description The message that this one replies to. */
            quoted_message_id: string | null;
            /** @description The `X-Request-Id` of the call. */
            request_id: string | null;
            /** @description Whether the API sent it, the phone itself, or it came from the network. */
            source: components["schemas"]["Source"];
            /** @description The status. */
            status: components["schemas"]["MessageStatus"];
            /**
             * Format: date-time
             * @description Since when it has this status.
             */
            status_at: string;
            /** @description The text. */
            text: string | null;
            /** @description The recipient: an address, or the digits of a number. */
            to: string;
            /** @description What kind it is. */
            type: string;
            /** @description The deliveries that carried it. */
            webhook_deliveries: components["schemas"]["MessageDelivery"][];
        };
        TestError: {
            /** @description A stable code, for programs. */
            code: string;
            /** @description An explanation, for people. */
            message: string;
        };
        /** @description What became of a probe. `status` is the upstream's status on the one route, and the word of `outcome` on the other. */
        TestResult: {
            /**
             * Format: uint64
             * @description The whole attempt, with DNS, TLS and body, in milliseconds.
             */
            elapsed_ms: number;
            /**
             * Format: uuid
             * @description The webhook endpoint.
             */
            endpoint_id: string | null;
            /** @description What went wrong. */
            error: components["schemas"]["TestError"] | null;
            /**
             * Format: uint16
             * @description The receiver's status; null or 0 when there was no answer.
             */
            http_status: number;
            /**
             * Format: uint64
             * @description From the request to the first byte of the answer, in milliseconds.
             */
            latency_ms: number;
            /** @description Whether the receiver took it. */
            ok: boolean;
            /**
             * @description How it ended.
             * @enum {string}
             */
            outcome: "success" | "failure";
            /**
             * @description Whose secret signed it.
             * @enum {string}
             */
            signed_with: "endpoint" | "gateway_default";
            /** @description The status. */
            status: string | number;
        };
        /**
         * @description Whose turn it is.
         * @enum {string}
         */
        TicketStatus: "open" | "waiting" | "solved" | "closed";
        /** @description A ticket, without its messages. */
        TicketView: {
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
        /** @description A day or an hour of the account, or a day of one of its channels. */
        Usage: {
            /**
             * Format: uuid
             * @description The channel, in rows per channel.
             */
            channel_id: string | null;
            /**
             * Format: date
             * @description The day, of UTC.
             */
            date: string;
            /**
             * Format: uint64
             * @description Sends that failed.
             */
            failed: number;
            /**
             * Format: date-time
             * @description Only in rows per hour.
             */
            hour?: string | null;
            /**
             * Format: uint64
             * @description Bytes of media, in and out.
             */
            media_bytes: number;
            /**
             * Format: uint64
             * @description Messages that were received.
             */
            received: number;
            /**
             * Format: uint64
             * @description Sends that the network accepted.
             */
            sent: number;
            /**
             * Format: uint64
             * @description Those that reached their endpoint.
             */
            webhook_deliveries: number;
        };
        /** @description A delivery in a list. */
        WebhookDelivery: {
            /**
             * Format: uint32
             * @description Attempts so far.
             */
            attempt_count: number;
            /**
             * Format: uuid
             * @description The channel.
             */
            channel_id: string;
            /**
             * Format: date-time
             * @description When it was created.
             */
            created_at: string;
            /**
             * Format: date-time
             * @description When it was delivered.
             */
            delivered_at: string | null;
            /**
             * Format: uuid
             * @description The webhook endpoint.
             */
            endpoint_id: string;
            /** @description The event's name. */
            event: components["schemas"]["EventName"];
            /** @description `evt_` and a ULID: the key by which receivers drop repeats. */
            event_id: string;
            /**
             * Format: uuid
             * @description Its id.
             */
            id: string;
            /**
             * Format: date-time
             * @description When it was last attempted.
             */
            last_attempt_at: string | null;
            /**
             * Format: uint16
             * @description The receiver's status at the last attempt; null when there was no answer.
             */
            last_http_status: number | null;
            /** @description How the last attempt ended. */
            last_outcome: components["schemas"]["Outcome"] | null;
            /**
             * Format: uint32
             * @description After how many it is given up.
             */
            max_attempts: number;
            /** @description A message id of the network: `3EB0` and 36 upper-case hex characters when minted here. */
            message_id: string | null;
            /**
             * Format: date-time
             * @description When it is attempted next.
             */
            next_attempt_at: string | null;
            /** @description Its state. */
            state: components["schemas"]["DeliveryState"];
            /** @description The URL. */
            url: string;
        };
        /** @description A delivery with its attempts and what it delivers. */
        WebhookDeliveryDetail: {
            /**
             * Format: uint32
             * @description Attempts so far.
             */
            attempt_count: number;
            /** @description Each attempt, the first one first. */
            attempts: components["schemas"]["DeliveryAttempt"][];
            /**
             * Format: uuid
             * @description The channel.
             */
            channel_id: string;
            /**
             * Format: date-time
             * @description When it was created.
             */
            created_at: string;
            /**
             * Format: date-time
             * @description When it was delivered.
             */
            delivered_at: string | null;
            /**
             * Format: uuid
             * @description The webhook endpoint.
             */
            endpoint_id: string;
            /** @description The event's name. */
            event: components["schemas"]["EventName"];
            /** @description `evt_` and a ULID: the key by which receivers drop repeats. */
            event_id: string;
            /**
             * Format: uuid
             * @description Its id.
             */
            id: string;
            /**
             * Format: date-time
             * @description When it was last attempted.
             */
            last_attempt_at: string | null;
            /**
             * Format: uint16
             * @description The receiver's status at the last attempt; null when there was no answer.
             */
            last_http_status: number | null;
            /** @description How the last attempt ended. */
            last_outcome: components["schemas"]["Outcome"] | null;
            /**
             * Format: uint32
             * @description After how many it is given up.
             */
            max_attempts: number;
            /** @description A message id of the network: `3EB0` and 36 upper-case hex characters when minted here. */
            message_id: string | null;
            /**
             * Format: date-time
             * @description When it is attempted next.
             */
            next_attempt_at: string | null;
            /** @description What is sent to the receiver. */
            request: components["schemas"]["DeliveryRequest"];
            /** @description Its state. */
            state: components["schemas"]["DeliveryState"];
            /** @description The URL. */
            url: string;
        };
        /** @description A webhook endpoint without its secret. */
        WebhookEndpoint: {
            /**
             * Format: uuid
             * @description The channel whose events it receives; null for those of all channels of the account.
             */
            channel_id: string | null;
            /** @description The kind of chats whose events are sent. */
            chat_type_filter: components["schemas"]["ChatTypeFilter"];
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
            /** @description Why the gateway switched it off. */
            disabled_reason: components["schemas"]["DisabledReason"] | null;
            /** @description Whether it is on. */
            enabled: boolean;
            /** @description The names of events. */
            events: components["schemas"]["EventFilter"];
            /**
             * Format: date-time
             * @description Since when no delivery has succeeded.
             */
            failing_since: string | null;
            /** @description Whether it has a secret of its own. */
            has_custom_signing_secret: boolean;
            /** @description Names with their values masked. */
            headers: {
                [key: string]: string;
            };
            /**
             * Format: uuid
             * @description Its id.
             */
            id: string;
            /**
             * Format: date-time
             * @description When a delivery last succeeded.
             */
            last_success_at: string | null;
            /**
             * Format: date-time
             * @description When it last changed.
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
            /** @description From the event to the receiver's answer, in milliseconds. */
            latency_ms: components["schemas"]["Latencies"];
            /**
             * Format: uint64
             * @description At this moment.
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
