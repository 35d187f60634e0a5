//! End-to-end tests of the real binary, of the link, and against other people's GridFTP: one program,
//! so that linking costs once. A module is a subject; its tests are sentences.

mod bad_files;
mod bad_peers;
mod cc;
mod cc_processes;
mod check;
mod cli;
mod copy;
mod corpus;
mod existing;
mod guest;
mod interop;
mod interrupt;
mod limit;
mod link;
mod near;
mod omitted;
mod ordinary;
mod page;
mod partials;
mod pipes;
mod plain_ftp;
mod profile;
mod profile_node;
mod rdma;
mod reach;
mod resume;
mod silence;
mod sparse;
mod ssh;
mod stock;
mod stores;
mod third_party;
mod tls;
mod tuning;
mod verbs;
