//! `GET /openapi.json`, and `GET /docs` with a page to try the routes out (supplement 27). Everything that the page needs
//! is in the binary.

use bytes::Bytes;
use model::error::{ApiError, ErrorCode};
use salvo::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, ETAG, IF_NONE_MATCH, REFERRER_POLICY, X_FRAME_OPTIONS,
};
use salvo::http::{HeaderValue, StatusCode};
use salvo::oapi::swagger_ui;
use serde_json::json;
use uuid::Uuid;

use super::{Deployment, Doc};
use crate::exchange::Exchange;
use crate::failure;
use crate::reply::{Outcome, Reply};
use crate::route::Route;

/// Loads the page's script and the document by paths beside its own, so that it works behind a prefix too.
const PAGE: &str = include_str!("page.html");

/// What the page begins with: a file of its own, so that nothing that stands within a page has to be run.
const BEGIN: (&str, &str) = ("begin.js", include_str!("begin.js"));

/// The scripts and styles that the page loads.
const ASSETS: [(&str, &str); 2] = [("swagger-ui.css", STYLE), ("swagger-ui-bundle.js", SCRIPT)];

const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The page takes keys to try calls with: it runs its own scripts alone, tells what is typed there to nobody but this
/// port, and lies in no frame. Its library sets styles by itself and draws with pictures that stand in its style sheet.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

/// How long a browser keeps them: they change with the binary alone.
const ASSET_AGE: HeaderValue = HeaderValue::from_static("public, max-age=86400");

/// A port's document as it is sent.
pub struct Document {
    bytes: Bytes,
    etag: HeaderValue,
}

impl Document {
    pub fn of(title: &str, routes: &[Route], deployment: &Deployment<'_>) -> Self {
        let bytes = Bytes::from(super::document(title, routes, deployment).to_string());
        let tag = format!("\"{}\"", Uuid::new_v5(&Uuid::NAMESPACE_OID, &bytes).simple());
        let etag = HeaderValue::try_from(tag).expect("hex digits in quotes are a header's value");
        Self { bytes, etag }
    }
}

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/openapi.json").public(document).doc(
            Doc::new("get_openapi", "Get this document")
                .header("If-None-Match", "The `ETag` of the copy that is at hand.", json!({ "type": "string" }))
                .content("application/json")
                .empty(StatusCode::NOT_MODIFIED),
        ),
        Route::get("/docs").public(page).doc(
            Doc::new("get_docs", "Show this document, with a form for each call").content("text/html; charset=utf-8"),
        ),
        Route::get("/docs/{asset}").public(asset).doc(
            Doc::new("get_docs_asset", "Get a script or a style of the page")
                .content("text/css; charset=utf-8")
                .content("text/javascript; charset=utf-8")
                .errors(&[ErrorCode::NotFound]),
        ),
    ]
}

async fn document(exchange: &mut Exchange) -> Outcome {
    let Document { bytes, etag } = &exchange.app.document;
    let known = exchange.http.headers().get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let same = known.is_some_and(|known| {
        known.split(',').map(str::trim).any(|tag| tag == "*" || tag.trim_start_matches("W/") == *etag)
    });
    let reply =
        if same { Reply::empty(StatusCode::NOT_MODIFIED) } else { Reply::content("application/json", bytes.clone()) };
    // It changes with the binary: a copy is asked about each time.
    Ok(reply.with(ETAG, etag.clone()).with(CACHE_CONTROL, HeaderValue::from_static("no-cache")))
}

async fn page(_: &mut Exchange) -> Outcome {
    Ok(guarded(Reply::content("text/html; charset=utf-8", PAGE)))
}

/// With the policies that a browser is to keep.
fn guarded(reply: Reply) -> Reply {
    reply
        .with(CONTENT_SECURITY_POLICY, POLICY)
        .with(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"))
        .with(REFERRER_POLICY, HeaderValue::from_static("no-referrer"))
}

async fn asset(exchange: &mut Exchange) -> Outcome {
    let wanted = exchange.parameter("asset");
    if wanted == BEGIN.0 {
        return Ok(guarded(Reply::content(SCRIPT, BEGIN.1)).with(CACHE_CONTROL, ASSET_AGE));
    }
    let Some((name, content_type)) = ASSETS.into_iter().find(|(name, _)| *name == wanted) else {
        return Err(ApiError::route_not_found());
    };
    let file = swagger_ui::serve(name, "", "", "", &swagger_ui::Config::default());
    let file = file.map_err(|error| failure::internal("a file of the page could not be read", &error))?;
    let file = file.ok_or_else(|| failure::internal("a file of the page is missing", &name))?;
    Ok(guarded(Reply::content(content_type, file.bytes.into_owned())).with(CACHE_CONTROL, ASSET_AGE))
}
