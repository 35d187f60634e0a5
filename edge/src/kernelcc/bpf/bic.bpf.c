/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* BIC: a binary search for the window at which the last loss came (Xu, Harfoush, Rhee, INFOCOM 2004). */
#include "flow.h"

EVENTS(ev_bic)

/* low_window (section IV): up to this window BIC is Reno. */
#define LOW_WINDOW 14
/* Smax (section V: 32; tcp_bic: 16), in packets a round. */
#define MOST (config.paper ? 32 : 16)
/* Smin (section V: 0.01), in 1/1024 packets a round. */
#define LEAST 10
/* What is left after a loss, in 1/1024: beta = 0.125 (section V), tcp_bic 819. */
#define LEFT (config.paper ? 896 : 819)
/* tcp_bic: a step is a quarter of the distance, and the last packet takes 20 steps. */
#define DIVISOR 4
#define SMOOTH 20
/* tcp_bic works a step out again for the same window after HZ/32. */
#define STEP_LASTS_US 31250
/* tcp_bic's mean of packets for an acknowledgement, in 1/16; it starts at two. */
#define RATIO_SHIFT 4
#define RATIO_START (2 << RATIO_SHIFT)

struct own {
	__u64 owed;
	__u64 step_at;
	__u32 maximum;     /* the window at the last loss, 0 before the first */
	__u32 probe;       /* beyond the maximum: packets a round */
	__u32 probe_until; /* and the window at which they double */
	__u32 count;       /* tcp_bic: packets acknowledged for one more */
	__u32 count_of;    /* and for which window */
	__u32 ratio;
	__u32 sampled;
};

static __always_inline void forget(struct own *own)
{
	own->owed = 0;
	own->step_at = 0;
	own->maximum = 0;
	own->probe = 0;
	own->probe_until = 0;
	own->count = 0;
	own->count_of = 0;
	own->ratio = RATIO_START;
}

/* Packets to add in a round, in 1/1024 (appendix: the paper's pseudo-code). */
static __always_inline __u64 paper_step(struct own *own, __u32 cwnd)
{
	__u64 here = ((__u64)cwnd << 10) + own->owed / at_least(cwnd, 1);
	__u64 maximum = (__u64)own->maximum << 10;

	if (maximum > here && (maximum - here) / 2 > LEAST) {
		__u64 step = (maximum - here) / 2;

		own->probe = 0;
		return step < (__u64)MOST << 10 ? step : (__u64)MOST << 10;
	}
	/* Section III.C: past the maximum by one packet, then two, four, up to Smax a round. */
	if (!own->probe) {
		own->probe = 1;
		own->probe_until = at_least(cwnd, own->maximum) + 1;
	} else if (cwnd >= own->probe_until && own->probe < MOST) {
		own->probe = at_most(own->probe * 2, MOST);
		own->probe_until = cwnd + own->probe;
	}
	return (__u64)own->probe << 10;
}

/* Packets acknowledged for one more, as tcp_bic counts them. */
static __always_inline __u32 linux_count(struct own *own, __u32 cwnd)
{
	__u32 count, most = 16;

	if (cwnd <= LOW_WINDOW)
		return cwnd;
	if (cwnd < own->maximum) {
		__u32 distance = (own->maximum - cwnd) / DIVISOR;

		if (distance > most)
			count = cwnd / most;
		else if (distance <= 1)
			count = cwnd * SMOOTH / DIVISOR;
		else
			count = cwnd / distance;
	} else if (cwnd < own->maximum + DIVISOR) {
		count = cwnd * SMOOTH / DIVISOR;
	} else if (cwnd < own->maximum + most * (DIVISOR - 1)) {
		count = cwnd * (DIVISOR - 1) / at_least(cwnd - own->maximum, 1);
	} else {
		count = cwnd / most;
	}
	/* Before the first loss no slower than 5 % a round. */
	if (!own->maximum)
		count = at_most(count, 20);
	return at_least((count << RATIO_SHIFT) / at_least(own->ratio, 1), 1);
}

SEC("struct_ops/init")
void BPF_PROG(init, struct sock *sk)
{
	struct own *own = OWN(sk, own);

	forget(own);
	own->sampled = 0;
}

SEC("struct_ops/ssthresh")
__u32 BPF_PROG(ssthresh, struct sock *sk)
{
	__u32 cwnd = tcp_sk(sk)->snd_cwnd;
	struct own *own = OWN(sk, own);

	/* Fast convergence (section III.D): a flow whose maximum shrinks leaves room for others. */
	if (cwnd < own->maximum)
		own->maximum = (__u32)(((__u64)cwnd * (1024 + LEFT)) >> 11);
	else
		own->maximum = cwnd;
	own->owed = 0;
	own->probe = 0;
	own->count_of = 0;
	if (cwnd <= LOW_WINDOW)
		return at_least(cwnd >> 1, 2);
	return at_least((__u32)(((__u64)cwnd * LEFT) >> 10), 2);
}

SEC("struct_ops/cong_avoid")
void BPF_PROG(cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct own *own = OWN(sk, own);

	if (window_limited(tp)) {
		if (in_slow_start(tp))
			acked = tcp_slow_start(tp, acked);
		if (acked) {
			__u32 cwnd = tp->snd_cwnd;

			if (!config.paper) {
				if (own->count_of != cwnd || tp->tcp_mstamp - own->step_at > STEP_LASTS_US) {
					own->count = linux_count(own, cwnd);
					own->count_of = cwnd;
					own->step_at = tp->tcp_mstamp;
				}
				tcp_cong_avoid_ai(tp, at_least(own->count, 1), acked);
			} else if (cwnd <= LOW_WINDOW) {
				tcp_cong_avoid_ai(tp, at_least(cwnd, 1), acked);
			} else {
				grow_exactly(tp, &own->owed, paper_step(own, cwnd), acked);
			}
		}
	}
	sample(sk, &own->sampled);
}

SEC("struct_ops/pkts_acked")
void BPF_PROG(pkts_acked, struct sock *sk, const struct ack_sample *ack)
{
	struct own *own = OWN(sk, own);

	if (BPF_CORE_READ_BITFIELD(&tcp_sk(sk)->inet_conn, icsk_ca_state) == OPEN)
		own->ratio += ack->pkts_acked - (own->ratio >> RATIO_SHIFT);
}

SEC("struct_ops/set_state")
void BPF_PROG(set_state, struct sock *sk, __u8 state)
{
	if (state == LOSS)
		forget(OWN(sk, own));
	changed(sk, state);
}

SEC("struct_ops/undo_cwnd")
__u32 BPF_PROG(undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops fl_bic = {
	.init = (void *)init,
	.ssthresh = (void *)ssthresh,
	.cong_avoid = (void *)cong_avoid,
	.set_state = (void *)set_state,
	.pkts_acked = (void *)pkts_acked,
	.undo_cwnd = (void *)undo_cwnd,
	.name = "bic",
	.flags = TCP_CONG_NON_RESTRICTED,
};
