//! Store drivers: where bytes rest.
