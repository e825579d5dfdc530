import { call, get, nodeTime, type Page } from "../api";
import { Faces, Theirs, Tile, Title, Time, millis, number, useLoad } from "../parts";
import { href } from "../router";
import { may } from "../session";
import type { Channel, M } from "../types";
import { ADVICE, OFF } from "../words";

interface Shown {
  account: M["Account"];
  metrics: M["Metrics"];
  endpoints: M["WebhookEndpoint"][];
  /** Not known, where it was refused: that keeps nobody from the rest. */
  summary: M["StatusSummary"] | null;
  newest: Channel[];
}

async function load(signal: AbortSignal): Promise<Shown> {
  const [account, metrics, endpoints, summary, newest] = await Promise.all([
    get<M["Account"]>("/v1/account", {}, signal),
    get<M["Metrics"]>("/v1/metrics", { window: "24h" }, signal),
    get<Page<M["WebhookEndpoint"]>>("/v1/webhook-endpoints", {}, signal),
    call<M["StatusSummary"]>("GET", "/v1/status/summary", { isPublic: true, signal }).catch(() => null),
    get<Page<Channel>>("/v1/channels", { limit: 5 }, signal),
  ]);
  return { account, metrics, endpoints: endpoints.data, summary, newest: newest.data };
}

/** Why the account's sends are refused, where they are. */
function standstill({ overdue_since, trial_ends_at }: M["Account"]["plan"]): string | undefined {
  if (overdue_since && Date.parse(overdue_since) <= nodeTime()) return ADVICE["payment_overdue"];
  return trial_ends_at && Date.parse(trial_ends_at) <= nodeTime() ? ADVICE["trial_expired"] : undefined;
}

export function Home() {
  const shown = useLoad(load, [], { on: (event) => event.name.startsWith("channel."), every: 30_000 });
  return (
    <>
      <Title>Home</Title>
      <Faces of={shown}>
        {({ account, metrics, endpoints, summary, newest }) => {
          const counts = metrics.channels as Record<string, number>;
          const failing = endpoints.filter((endpoint) => endpoint.failing_since || endpoint.disabled_reason);
          const { outbound, inbound } = metrics.messages;
          const stands = standstill(account.plan);
          return (
            <>
              {stands && (
                <p class="failure" role="status">
                  {stands}
                </p>
              )}
              {summary && summary.status !== "operational" && (
                <p class="stale" role="status">
                  The service is {summary.status}:{" "}
                  {summary.components
                    .filter((part) => part.status !== "operational")
                    .map((part) => `${part.name} (${part.status})`)
                    .join(", ")}
                </p>
              )}
              {may("write") && account.channels.total === 0 && (
                <section class="next">
                  <h2>Pair your first number</h2>
                  <p>A channel is a phone number that you link by scanning a code. It takes a minute.</p>
                  <p>
                    <a class="button" href={href("channels", { create: "1" })}>
                      Create a channel
                    </a>
                  </p>
                </section>
              )}
              {may("write") && account.channels.total > 0 && account.channels.connected === 0 && newest[0] && (
                <section class="next">
                  <h2>No channel is connected</h2>
                  <p>
                    <a class="button" href={href("channel", { id: newest[0].id, tab: "pairing" })}>
                      Pair <Theirs text={newest[0].name} />
                    </a>
                  </p>
                </section>
              )}
              <section>
                <h2>Channels</h2>
                <div class="tiles">
                  <Tile label="All" value={<a href={href("channels")}>{number(account.channels.total)}</a>}
                    about={account.plan.channel_limit === null ? undefined : `of ${number(account.plan.channel_limit)} in the plan`} />
                  {Object.entries(counts)
                    .filter(([, count]) => count > 0)
                    .map(([status, count]) => (
                      <Tile key={status} label={status} value={<a href={href("channels", { status })}>{number(count)}</a>} />
                    ))}
                </div>
              </section>
              <section>
                <h2>The last 24 hours</h2>
                <div class="tiles">
                  <Tile label="Sent" value={number(outbound.sent)} />
                  <Tile label="Received" value={number(inbound)} />
                  <Tile label="Failed" value={number(outbound.failed)} warn={outbound.failed > 0} />
                  <Tile label="Queued now" value={number(outbound.queued)} />
                  <Tile label="Send latency" value={millis(metrics.send_latency_ms.p50)}
                    about={`p95 ${millis(metrics.send_latency_ms.p95)}, p99 ${millis(metrics.send_latency_ms.p99)}`} />
                  <Tile label="Webhooks delivered" value={number(metrics.webhooks.delivered)}
                    about={`${number(metrics.webhooks.retrying)} retrying, ${number(metrics.webhooks.exhausted)} exhausted`} />
                </div>
              </section>
              <section>
                <h2>Webhooks</h2>
                {endpoints.length === 0 && (
                  <p>
                    No webhook endpoints yet. {may("write") && <a href={href("webhooks", { create: "1" })}>Add a webhook</a>}
                  </p>
                )}
                {endpoints.length > 0 && failing.length === 0 && <p>{endpoints.length === 1 ? "The endpoint works." : `All ${number(endpoints.length)} endpoints work.`}</p>}
                {failing.map((endpoint) => (
                  <div key={endpoint.id} class="failure">
                    <p>
                      <a href={href("webhooks", { id: endpoint.id })}><Theirs text={endpoint.url} /></a>{" "}
                      {endpoint.disabled_reason ? (
                        `was switched off: ${OFF[endpoint.disabled_reason] ?? endpoint.disabled_reason}`
                      ) : (
                        <>
                          started to fail <Time at={endpoint.failing_since} />
                        </>
                      )}
                    </p>
                  </div>
                ))}
              </section>
              <p class="fine">
                Plan {account.plan.name} ({account.plan.status}) · account since <Time at={account.created_at} />
              </p>
            </>
          );
        }}
      </Faces>
    </>
  );
}
