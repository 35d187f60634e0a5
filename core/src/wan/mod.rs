//! The wide-area link: delay, rate, queue, loss, bit errors, jitter and cross-traffic, in virtual time.
