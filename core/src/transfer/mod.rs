//! A transfer: plan, blocks, staging, digests.
