//! The wide-area link in user space: namespaces, TUN devices and the packet mover around the core's `wan`.
