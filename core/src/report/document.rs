//! Documents that people read: what a page of one shows, figure by figure, and its rows.

use super::columns::Columns;
use super::page::{Page, Section};
use serde::Serialize;

/// What a page shows: text, tables and figures by section, in their order. A section without
/// anything to show is `None`.
#[derive(Clone, Debug)]
pub struct PageSpec {
    /// The page's title.
    pub title: String,
    /// What stands below it.
    pub lead: String,
    /// What the page is made of.
    pub sections: Vec<Option<Section>>,
    /// The name and version of the document behind the page, and what else is said of that.
    pub source: (String, String),
}

/// A document that is shown as a page, and as a table of typed columns.
pub trait ReportDocument: Serialize {
    /// What its page shows.
    fn spec(&self) -> PageSpec;

    /// What was found as rows of typed columns.
    fn columns(&self) -> Columns;

    /// The page, with the document in it; `commands` give it again.
    fn page(&self, commands: &[String]) -> Page {
        let PageSpec { title, lead, sections, source: (schema, more) } = self.spec();
        let page = Page::new(title).lead(lead);
        let page = sections.into_iter().flatten().fold(page, Page::section);
        page.made_from(serde_json::to_string(self).unwrap_or_default(), &schema, &more, commands)
    }
}
