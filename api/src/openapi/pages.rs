//! `GET /openapi.json`, and `GET /docs` with a page to try out the routes. Everything that the page needs is in the
//! binary.

use model::error::CallError;
use salvo::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, ETAG, IF_NONE_MATCH, LOCATION};
use salvo::http::{HeaderValue, StatusCode};
use serde_json::json;

use super::Deployment;
use crate::doc::Document;
use crate::reply::{Outcome, Reply};
use crate::request_context::RequestContext;
use crate::route::{GET, Route};

/// The page. It renders an operation only when it is opened, since rendering a whole document of this size takes
/// seconds. It loads its files and the document by relative paths, so that it works behind a prefix, too.
const PAGE: &str = include_str!("page/page.html");

/// The script and the style of the page, which are separate files so that no inline code has to be allowed; and the
/// notice that it links to, with the licences of a build and where to get its source.
const ASSETS: [(&str, &str, &str); 3] = [
    ("page.css", "text/css; charset=utf-8", include_str!("page/page.css")),
    ("page.js", "text/javascript; charset=utf-8", include_str!("page/page.js")),
    ("notice.txt", "text/plain; charset=utf-8", include_str!("../../../NOTICE")),
];

/// The content security policy. The page takes keys to try out calls, so it runs only its own script, connects only to
/// this port, and cannot be framed. It shows pictures of responses.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'",
);

/// All files change with the binary and belong together, so cached copies are revalidated each time.
const ASK_AGAIN: HeaderValue = HeaderValue::from_static("no-cache");

/// Builds the document of a port, ready to send.
pub fn document_of(title: &str, routes: &[Route], deployment: &Deployment<'_>) -> Document {
    Document::new(&super::document(title, routes, deployment))
}

pub fn routes() -> Vec<Route> {
    vec![
        Route::public(GET, "/openapi.json", document)
            .doc("get_openapi", "Get this document")
            .header("If-None-Match", "The `ETag` of the copy that the client has.", json!({ "type": "string" }))
            .content("application/json")
            .empty(StatusCode::NOT_MODIFIED),
        Route::public(GET, "/docs", page)
            .doc("get_docs", "Show this document, with a form for each call")
            .content("text/html; charset=utf-8"),
        Route::public(GET, "/docs/{asset}", asset)
            .doc("get_docs_asset", "Get a script or a style of the page, or the licences of the program")
            .content("text/css; charset=utf-8")
            .content("text/javascript; charset=utf-8")
            .content("text/plain; charset=utf-8"),
    ]
}

async fn document(ctx: &mut RequestContext) -> Outcome {
    let Document { text, etag, weak_etag } = &ctx.app.document;
    let form = text.form(ctx.http.headers());
    let known = ctx.http.headers().get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let same = known.is_some_and(|known| {
        known.split(',').map(str::trim).any(|tag| tag == "*" || tag.trim_start_matches("W/") == *etag)
    });
    let tag = if form.encoding.is_some() { weak_etag } else { etag };
    let reply = if same { Reply::empty(StatusCode::NOT_MODIFIED) } else { form.reply("application/json") };
    Ok(reply.with(ETAG, tag.clone()).with(CACHE_CONTROL, ASK_AGAIN))
}

async fn page(ctx: &mut RequestContext) -> Outcome {
    // With a trailing slash, the page's relative paths would resolve below it.
    if ctx.http.uri().path().ends_with('/') {
        return Ok(Reply::empty(StatusCode::PERMANENT_REDIRECT).with(LOCATION, HeaderValue::from_static("../docs")));
    }
    Ok(file(ctx, "text/html; charset=utf-8", PAGE))
}

/// A file of the page, with its security headers.
fn file(ctx: &RequestContext, content_type: &'static str, text: &'static str) -> Reply {
    let reply = Reply::content(content_type, text).guarded(&ctx.app.config.base_url);
    reply.with(CONTENT_SECURITY_POLICY, POLICY).with(CACHE_CONTROL, ASK_AGAIN)
}

async fn asset(ctx: &mut RequestContext) -> Outcome {
    let wanted = ctx.parameter("asset");
    let found = ASSETS.into_iter().find(|(name, _, _)| *name == wanted);
    let (_, content_type, text) = found.ok_or_else(CallError::route_not_found)?;
    Ok(file(ctx, content_type, text))
}
