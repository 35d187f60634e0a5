//! Results as JSON and as one self-contained HTML page.
