//! A channel's settings. Only the gateway stores them, so they can be changed in every status.

use bytes::Bytes;
use model::error::{CallError, ErrorCode as E};
use model::settings::{Settings, SettingsPatch};
use model::target::Proxy;
use model::time::Timestamp;
use salvo::http::header::IF_MATCH;
use salvo::http::{HeaderName, HeaderValue};
use serde_json::json;
use shard::settings::{ChangeSettings, NewSettings, SealedProxy, SettingsRow, proxy_purpose};

use crate::failure;
use crate::reply::{Outcome, Reply};
use crate::request_context::ChannelCall;
use crate::route::{DELETE, GET, PATCH, Route};

/// Response header: a change takes effect at the next connection.
const RESTART_REQUIRED: HeaderName = HeaderName::from_static("x-gateway-restart-required");

pub fn routes() -> Vec<Route> {
    let changes = |route: Route| {
        route
            .header(
                "If-Match",
                "The `updated_at` that was read, in quotes: the settings change only if nobody has changed them since.",
                json!({ "type": "string", "examples": ["\"2026-01-01T00:00:00.000Z\""] }),
            )
            .ok::<Settings>()
            .errors(&[E::NoOp, E::ConcurrentModification])
    };
    vec![
        Route::channel(GET, "/v1/channels/{id}/settings", show)
            .doc("get_settings", "Get a channel's settings")
            .ok::<Settings>(),
        Route::channel(PATCH, "/v1/channels/{id}/settings", patch)
            .doc("update_settings", "Change a channel's settings")
            .about(
                "Fields that are left out stay as they are. A new `proxy_url` takes effect at the next connection; the \
                 response then has the header `X-Gateway-Restart-Required: true`.",
            )
            .body_here(
                |body, here| SettingsPatch::parse(body, here.media_days, here.target_policy),
                json!({ "reject_calls": true, "reject_call_message": "Please write instead." }),
            )
            .also(changes),
        Route::channel(DELETE, "/v1/channels/{id}/settings", reset)
            .doc("reset_settings", "Reset a channel's settings to the defaults")
            .also(changes),
    ]
}

async fn show(call: &mut ChannelCall) -> Outcome {
    let row = call.find::<SettingsRow>("").await?.unwrap_or_default();
    Ok(Reply::ok(&shown(row.settings, call)))
}

async fn patch(call: &mut ChannelCall) -> Outcome {
    let body = call.object().await?;
    let most_media_days = call.cluster().media().retention_days();
    let SettingsPatch { change, proxy } = SettingsPatch::parse(&body, most_media_days, &call.app.config.target_policy)?;
    let proxy = proxy.try_map(|proxy| proxy.map(|proxy| sealed(call, proxy)).transpose())?;
    settle(call, NewSettings::Patched { change: Box::new(change), proxy }).await
}

async fn reset(call: &mut ChannelCall) -> Outcome {
    settle(call, NewSettings::Defaults).await
}

async fn settle(call: &mut ChannelCall, to: NewSettings) -> Outcome {
    let expect = expected(call)?;
    let changed = call.ask(ChangeSettings { expect, to }).await?;
    let reply = Reply::ok(&shown(*changed.settings, call));
    Ok(if changed.proxy { reply.with(RESTART_REQUIRED, HeaderValue::from_static("true")) } else { reply })
}

/// Shows settings. Settings that were never changed get the channel's creation time.
fn shown(settings: Settings, call: &ChannelCall) -> Settings {
    let never = settings.updated_at == Timestamp::default();
    Settings { updated_at: if never { call.channel.created_at } else { settings.updated_at }, ..settings }
}

/// The version that `If-Match` names, as the owner knows it.
///
/// # Errors
/// `concurrent_modification` for text that is no quoted time, which can match no version.
fn expected(call: &ChannelCall) -> Result<Option<Timestamp>, CallError> {
    let Some(header) = call.http.headers().get(IF_MATCH) else { return Ok(None) };
    let text = header.to_str().unwrap_or_default().trim();
    if text == "*" {
        return Ok(None);
    }
    let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let at = quoted.and_then(Timestamp::parse_iso).ok_or_else(|| CallError::concurrent_modification("settings"))?;
    Ok(Some(if at == call.channel.created_at { Timestamp::default() } else { at }))
}

/// Seals a proxy's URL. A masked URL, as it was shown, has no password to seal.
fn sealed(call: &ChannelCall, proxy: Proxy) -> Result<SealedProxy, CallError> {
    if proxy.is_masked() {
        return Ok(SealedProxy { shown: proxy.shown, sealed: None });
    }
    let (customer, purpose) = (&call.caller.customer, proxy_purpose(call.channel.id));
    let sealed = call.cluster().secrets().seal(customer, &purpose, proxy.url.as_bytes());
    let sealed = sealed.map_err(|error| failure::internal("a proxy cannot be encrypted", &error))?;
    Ok(SealedProxy { shown: proxy.shown, sealed: Some(Bytes::from(sealed)) })
}
