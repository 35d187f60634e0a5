//! The API's description in OpenAPI 3.1, from which clients are generated.

use super::{api, events};
use utoipa::OpenApi;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Farline calendar",
        description = "Bandwidth by appointment: rates in bit/s, volumes in bytes, times in RFC 3339.",
        license(name = "MIT OR Apache-2.0")
    ),
    paths(
        api::topology, api::links, api::availability, api::list, api::reserve, api::show,
        api::change, api::act, api::closures, api::close, api::reopen, api::circuits, api::report,
        events::stream, events::log, events::last
    ),
    modifiers(&Bearer),
    security(("bearer" = []))
)]
struct Described;

struct Bearer;

impl utoipa::Modify for Bearer {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        openapi.components.get_or_insert_default().add_security_scheme("bearer", scheme);
    }
}

/// The document.
pub fn document() -> utoipa::openapi::OpenApi {
    Described::openapi()
}
