//! Channel drivers: how bytes travel. TCP here; one trait for ordered bytes and for registered slots.
