//! The console: pages for members on the public port and for operators on theirs, embedded in the binary.
//!
//! The pages have no logic of their own and call the interface. `files` serves what `console/` builds, `session` keeps
//! a member's refresh token where no script can read it, `phones` lets a phone of a simulated network scan a code.
//! [`router`](crate::router::router_with_console) mounts the interface's copy for members' sessions.

mod files;
mod phones;
mod session;

use model::error::ErrorCode as E;

use self::phones::SimulatedPhone;
use self::session::ConsoleSession;
use crate::route::{DELETE, GET, POST, PUT, Route};

const HTML: &str = "text/html; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// Routes of the public port. They serve only the console and are not part of the interface.
pub fn routes_for_members() -> Vec<Route> {
    let mut routes =
        pages(Route::public(GET, "/console", files::members), Route::public(GET, "/console/{page}", files::members));
    routes.extend([
        Route::public(POST, "/console/session", session::log_in)
            .doc("open_console_session", "Log in to the console")
            .ok::<ConsoleSession>()
            .errors(&[E::BadRequest, E::AuthInvalid]),
        Route::public(PUT, "/console/session", session::refresh)
            .doc("refresh_console_session", "Get another access token for the console")
            .ok::<ConsoleSession>()
            .errors(&[E::BadRequest, E::AuthMissing, E::AuthInvalid, E::AuthExpired, E::AuthRevoked]),
        Route::public(DELETE, "/console/session", session::log_out)
            .doc("close_console_session", "Log out of the console")
            .no_content()
            .errors(&[E::BadRequest]),
        Route::public(POST, "/console/phones", phones::scan)
            .doc("scan_with_simulated_phone", "Let a phone of the simulated network scan a code")
            .ok::<SimulatedPhone>()
            .errors(&[E::BadRequest, E::InvalidRequest, E::NotFound, E::Other]),
    ]);
    routes
}

/// Routes of the operator's port: only the pages, which call that port with the operator's token.
pub fn routes_for_operators() -> Vec<Route> {
    pages(Route::public(GET, "/console", files::operators), Route::public(GET, "/console/{page}", files::operators))
}

fn pages(first: Route, page: Route) -> Vec<Route> {
    vec![
        first.doc("get_console", "Open the console").content(HTML),
        page.doc("get_console_page", "Open a page of the console").content(HTML),
        Route::public(GET, "/console/assets/{asset}", files::asset)
            .doc("get_console_asset", "Get a file of the console")
            .content("text/css; charset=utf-8")
            .content("text/javascript; charset=utf-8")
            .errors(&[E::NotFound]),
        Route::public(GET, "/console/licences.txt", files::licences)
            .doc("get_console_licences", "Read the licences of the console's components")
            .content(TEXT),
    ]
}
