/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* HighSpeed TCP: how much to add and to take away depends on the window (RFC 3649). */
#include "flow.h"

EVENTS(ev_highspeed)

struct row {
	__u32 window;
	__u32 decrease; /* 256 b(w) */
};

/* RFC 3649, appendix B, by the RFC's own rule; padded with windows that nobody has. */
#include "highspeed.h"

#define CAPACITY 128
_Static_assert(sizeof(rows) == CAPACITY * sizeof(struct row), "the search below takes seven steps");

struct own {
	__u64 owed;
	__u32 row; /* tcp_highspeed: of the last window that grew, counted from 0 */
	__u32 sampled;
};

/* How many rows begin below `cwnd`. */
static __always_inline __u32 rows_below(__u32 cwnd)
{
	__u32 below = 0;

	for (__u32 step = CAPACITY / 2; step; step >>= 1) {
		__u32 last = below + step - 1;

		/* The mask must be applied to the very register that indexes, or the verifier sees no bound. */
		asm volatile("" : "+r"(last));
		if (rows[last & (CAPACITY - 1)].window < cwnd)
			below += step;
	}
	return below;
}

/* Row `i`, held within the table. */
static __always_inline __u32 window_of(__u32 i)
{
	asm volatile("" : "+r"(i));
	return rows[i & (CAPACITY - 1)].window;
}

static __always_inline __u32 decrease_of(__u32 i)
{
	asm volatile("" : "+r"(i));
	return rows[i & (CAPACITY - 1)].decrease;
}

/* 1024 a(w) and 1024 b(w). They are continuous: row i is where a(w) reaches i, and between two rows a line is within a hundredth. */
static __always_inline void a_and_b(__u32 cwnd, __u64 *a, __u32 *b)
{
	__u32 below = rows_below(cwnd);

	if (below == 0 || below >= ROWS) {
		__u32 row = at_most(below, ROWS - 1);

		*a = (__u64)(row + 1) << 10;
		*b = decrease_of(row) << 2;
		return;
	}
	__u32 from = window_of(below - 1), to = window_of(below);
	__u64 part = ((__u64)(cwnd - from) << 10) / at_least(to - from, 1);
	__u32 high = decrease_of(below - 1), low = decrease_of(below);

	*a = ((__u64)below << 10) + part;
	*b = (high << 2) - (__u32)(((high - low) * part) >> 8);
}

SEC("struct_ops/init")
void BPF_PROG(init, struct sock *sk)
{
	struct own *own = OWN(sk, own);

	own->owed = 0;
	own->row = 0;
	own->sampled = 0;
}

SEC("struct_ops/ssthresh")
__u32 BPF_PROG(ssthresh, struct sock *sk)
{
	__u32 cwnd = tcp_sk(sk)->snd_cwnd, b;
	struct own *own = OWN(sk, own);
	__u64 a;

	if (config.paper)
		a_and_b(cwnd, &a, &b);
	else
		b = decrease_of(own->row) << 2;
	own->owed = 0;
	return at_least(cwnd - (__u32)(((__u64)cwnd * b) >> 10), 2);
}

/* Of the first row that is not below w; a(w) for an acknowledgement, whether of one packet or of two, and at most one packet. */
static __always_inline void tcp_highspeed(struct tcp_sock *tp, struct own *own)
{
	own->row = at_most(rows_below(tp->snd_cwnd), ROWS - 1);
	if (tp->snd_cwnd < tp->snd_cwnd_clamp) {
		tp->snd_cwnd_cnt += own->row + 1;
		if (tp->snd_cwnd_cnt >= tp->snd_cwnd) {
			tp->snd_cwnd_cnt -= tp->snd_cwnd;
			grow(tp, 1);
		}
	}
}

SEC("struct_ops/cong_avoid")
void BPF_PROG(cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct own *own = OWN(sk, own);

	if (window_limited(tp)) {
		if (in_slow_start(tp)) {
			acked = tcp_slow_start(tp, acked);
			if (!config.paper)
				acked = 0;
		}
		if (acked && config.paper) {
			__u64 a;
			__u32 b;

			a_and_b(tp->snd_cwnd, &a, &b);
			grow_exactly(tp, &own->owed, a, acked);
		} else if (acked) {
			tcp_highspeed(tp, own);
		}
	}
	sample(sk, &own->sampled);
}

SEC("struct_ops/set_state")
void BPF_PROG(set_state, struct sock *sk, __u8 state)
{
	changed(sk, state);
}

SEC("struct_ops/undo_cwnd")
__u32 BPF_PROG(undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops fl_highspeed = {
	.init = (void *)init,
	.ssthresh = (void *)ssthresh,
	.cong_avoid = (void *)cong_avoid,
	.set_state = (void *)set_state,
	.undo_cwnd = (void *)undo_cwnd,
	.name = "highspeed",
	.flags = TCP_CONG_NON_RESTRICTED,
};
