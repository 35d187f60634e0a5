//! A running node: the GridFTP server.
