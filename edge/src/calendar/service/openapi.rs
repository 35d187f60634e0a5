//! The API's description in OpenAPI 3.1, from which clients are generated.

use super::{api, circuits, events};
use utoipa::OpenApi;
use utoipa::openapi::RefOr;
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
        api::change, api::perform, api::closures, api::close, api::reopen, circuits::list,
        circuits::report,
        events::stream, events::log, events::last
    ),
    modifiers(&Bearer, &Problems),
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

/// Refusals are problems of RFC 9457, by their own media type.
struct Problems;

impl utoipa::Modify for Problems {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        for path in openapi.paths.paths.values_mut() {
            let operations =
                [&mut path.get, &mut path.put, &mut path.post, &mut path.patch, &mut path.delete];
            let responses = operations.into_iter().flatten();
            for (status, response) in responses.flat_map(|o| o.responses.responses.iter_mut()) {
                if let RefOr::T(response) = response
                    && status.starts_with(['4', '5'])
                    && let Some(content) = response.content.shift_remove("application/json")
                {
                    response.content.insert("application/problem+json".to_owned(), content);
                }
            }
        }
    }
}

/// The document.
pub fn document() -> utoipa::openapi::OpenApi {
    Described::openapi()
}
