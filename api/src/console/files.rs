//! Serves the files of the console, with security and cache headers.
//!
//! `make console` builds them into `console/dist`, each with its compressed forms; the binary embeds them all.

use bytes::Bytes;
use model::error::CallError;
use rust_embed::Embed;
use salvo::http::HeaderValue;
use salvo::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY};

use crate::failure;
use crate::packed::{Form, takes};
use crate::reply::{Outcome, Reply};
use crate::request_context::RequestContext;

#[derive(Embed)]
#[folder = "../console/dist"]
struct Dist;

/// Names of files contain a hash of the content, so they never change. Pages have fixed names and are revalidated.
const FOR_EVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
const ASK_AGAIN: HeaderValue = HeaderValue::from_static("no-cache");

/// The encodings and the endings of the compressed files, smallest first.
const ENCODINGS: [(&str, &str); 2] = [("br", ".br"), ("gzip", ".gz")];

pub async fn members(ctx: &mut RequestContext) -> Outcome {
    known(ctx, "members.html", super::HTML, &ctx.app.config.frame_ancestors)
}

pub async fn operators(ctx: &mut RequestContext) -> Outcome {
    known(ctx, "operators.html", super::HTML, &[])
}

pub async fn asset(ctx: &mut RequestContext) -> Outcome {
    let name = ctx.parameter("asset");
    let content_type = match name.rsplit_once('.') {
        Some((_, "js")) => "text/javascript; charset=utf-8",
        Some((_, "css")) => "text/css; charset=utf-8",
        Some((_, "svg")) => "image/svg+xml",
        Some((_, "txt")) => super::TEXT,
        _ => return Err(CallError::route_not_found()),
    };
    let age = if content_type.starts_with("text/plain") { ASK_AGAIN } else { FOR_EVER };
    file(ctx, name, content_type, age, &[]).ok_or_else(CallError::route_not_found)
}

/// The licences of the pages' components, under a stable name.
pub async fn licences(ctx: &mut RequestContext) -> Outcome {
    known(ctx, "licences.txt", super::TEXT, &[])
}

/// A file with a stable name, which every build has.
fn known(ctx: &RequestContext, name: &str, content_type: &'static str, ancestors: &[String]) -> Outcome {
    file(ctx, name, content_type, ASK_AGAIN, ancestors)
        .ok_or_else(|| failure::internal("a file of the console is missing", &name))
}

/// A file in the smallest form that the browser accepts, with security headers. Pages of `ancestors` may frame it.
fn file(
    ctx: &RequestContext,
    name: &str,
    content_type: &'static str,
    age: HeaderValue,
    ancestors: &[String],
) -> Option<Reply> {
    let plain = Dist::get(name)?.data;
    let packed = ENCODINGS.iter().find_map(|(encoding, ending)| {
        let file = takes(ctx.http.headers(), encoding).then(|| Dist::get(&format!("{name}{ending}"))).flatten()?;
        Some((Some(*encoding), file.data))
    });
    let (encoding, data) = packed.unwrap_or((None, plain));
    let reply = Form { encoding, bytes: Bytes::from_owner(data) }.reply(content_type).with(CACHE_CONTROL, age);
    Some(guarded(reply, &ctx.app.config.base_url, ancestors))
}

/// Adds the content security policy: the console runs only its own scripts, from files, and calls only this port; only
/// `ancestors` may frame it; and text never becomes markup.
fn guarded(reply: Reply, base_url: &str, ancestors: &[String]) -> Reply {
    let media = origin_of(base_url);
    let frames = if ancestors.is_empty() { "'none'".to_owned() } else { ancestors.join(" ") };
    let policy = format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data: {media}; \
         media-src 'self' blob: {media}; connect-src 'self'; form-action 'self'; base-uri 'none'; \
         frame-ancestors {frames}; require-trusted-types-for 'script'; trusted-types 'none'"
    );
    let policy = HeaderValue::try_from(policy)
        .unwrap_or_else(|_| HeaderValue::from_static("default-src 'none'; script-src 'self'; frame-ancestors 'none'"));
    reply.guarded(base_url).with(CONTENT_SECURITY_POLICY, policy)
}

/// The origin of signed media links: scheme, host and port of a URL.
fn origin_of(url: &str) -> &str {
    let host = url.find("://").map_or(0, |at| at + 3);
    url[host..].find('/').map_or(url, |end| &url[..host + end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_a_url_without_its_path() {
        let table = [
            ("https://gateway.example.com", "https://gateway.example.com"),
            ("https://gateway.example.com:8443/a/b", "https://gateway.example.com:8443"),
            ("http://127.0.0.1:8001/", "http://127.0.0.1:8001"),
        ];
        for (url, origin) in table {
            assert_eq!(origin_of(url), origin);
        }
    }

    #[test]
    fn the_binary_grows_by_little() {
        let bytes: usize = Dist::iter().filter_map(|name| Dist::get(&name)).map(|file| file.data.len()).sum();
        assert!(bytes <= 400_000, "{bytes} bytes");
    }

    #[test]
    fn every_file_is_there_in_its_compressed_forms_and_pages_name_files_that_are_there() {
        for page in ["members.html", "operators.html"] {
            let text = String::from_utf8(Dist::get(page).expect("the page is built").data.into_owned()).expect("UTF-8");
            let named: Vec<&str> = text.split('"').filter_map(|part| part.strip_prefix("/console/assets/")).collect();
            assert!(named.len() >= 4, "{page}: {named:?}");
            for name in named {
                assert!(Dist::get(name).is_some(), "{page} names {name}");
            }
        }
        for name in Dist::iter().filter(|name| !name.ends_with(".br") && !name.ends_with(".gz")) {
            for (_, ending) in ENCODINGS {
                assert!(Dist::get(&format!("{name}{ending}")).is_some(), "{name}{ending}");
            }
        }
    }
}
