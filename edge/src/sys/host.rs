//! Which kernel this is, from its start to its end.

/// Sixteen hexadecimal digits that tell this kernel from all others until it is started again, and
/// nothing else of it; nothing where the kernel does not say.
pub(crate) fn kernel_id() -> Option<String> {
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").ok()?;
    let digest = blake3::derive_key("farline 2026 kernel", &boot);
    Some(digest[..8].iter().map(|byte| format!("{byte:02x}")).collect())
}
