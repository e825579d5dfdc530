//! Arranges the routes of a port as a tree of paths, with the pipeline before each.

use std::collections::BTreeMap;
use std::sync::Arc;

use salvo::Router;

use crate::app::App;
use crate::pipeline::{Entry, Pipeline};
use crate::route::{Action, PathRoutes, Route};

/// Path of the console's copy of the interface, which only members' sessions may call.
const CONSOLE_API: &str = "console/api";

/// The path segments of a send, the most frequent request. Siblings are tried in order, and these first.
const BUSY: [&str; 3] = ["v1", "channels", "messages"];

/// A segment of the path tree. Literals are matched before parameters, so that `/test` is never taken for an id.
#[derive(Default)]
struct Node {
    paths: Option<PathRoutes>,
    literals: BTreeMap<&'static str, Node>,
    parameters: BTreeMap<&'static str, Node>,
}

/// Builds the router of a port, including the answer to paths that match no route.
pub fn router(app: &Arc<App>, routes: Vec<Route>) -> Router {
    let has_console = routes.iter().any(|route| route.path == "/console");
    let home = if has_console { "console" } else { "docs" };
    let nowhere = Router::with_path("{**path}").goal(Pipeline::nowhere(app.clone(), home));
    tree(app, routes, Entry::Interface).push(nowhere)
}

/// Like [`router`], with a copy of the account routes for the console under [`CONSOLE_API`].
pub fn router_with_console(app: &Arc<App>, routes: Vec<Route>, again: Vec<Route>) -> Router {
    let of_accounts = |route: &Route| matches!(route.action, Action::Account(_) | Action::Channel(_));
    let again = again.into_iter().filter(of_accounts).collect();
    // Placed before the console's pages, whose paths have parameters that would match.
    Router::new().push(Router::with_path(CONSOLE_API).push(tree(app, again, Entry::Console))).push(router(app, routes))
}

/// Builds the tree by path segments, so that the cost of finding a route is its depth and not the number of routes.
fn tree(app: &Arc<App>, routes: Vec<Route>, entry: Entry) -> Router {
    let mut root = Node::default();
    for route in routes {
        let segments = route.path.trim_start_matches('/').split('/');
        let node = segments.fold(&mut root, |node, segment| {
            let children = if segment.starts_with('{') { &mut node.parameters } else { &mut node.literals };
            children.entry(segment).or_default()
        });
        let paths = node.paths.get_or_insert_with(|| PathRoutes { path: route.path, routes: Vec::new() });
        paths.routes.push(route);
    }
    root.into_router(Router::new(), app, entry)
}

impl Node {
    fn into_router(self, mut router: Router, app: &Arc<App>, entry: Entry) -> Router {
        let is_busy = |(segment, _): &(&'static str, Self)| BUSY.contains(segment);
        let (busy, others): (Vec<_>, Vec<_>) = self.literals.into_iter().partition(is_busy);
        for (segment, child) in busy.into_iter().chain(others).chain(self.parameters) {
            router = router.push(child.into_router(Router::with_path(segment), app, entry));
        }
        match self.paths {
            Some(paths) => router.goal(Pipeline::new(app.clone(), paths, entry)),
            None => router,
        }
    }
}
