//! What happens to every request on its way in and every answer on its way out, whatever the route.

mod headers;
mod large;
mod observe;
mod panic;

use axum::{Router, middleware};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;

use crate::app::App;

pub(crate) use large::refuse_large;
pub(crate) use panic::words;

/// Puts the layers around a router; the last one added is the first that a request meets.
pub(crate) fn wrap(router: Router<App>, app: &App) -> Router<App> {
    router
        .layer(CatchPanicLayer::custom(panic::answer))
        .layer(CompressionLayer::new())
        .layer(middleware::from_fn(headers::secure))
        .layer(middleware::from_fn_with_state(app.clone(), observe::observe))
}
