/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* H-TCP: the longer since the last loss, the more is added each round (Leith, Shorten, 2004; draft-leith-tcp-htcp-06). */
#include "flow.h"

EVENTS(ev_htcp)

/* Fixed point of alpha and beta: 128 is one. */
#define ONE 128
/* What is left after a loss: between a half and 0.8 (draft, section 3). */
#define LEFT_LEAST 64
#define LEFT_MOST 102
/* Delta_L: for one second after a loss H-TCP is Reno (draft, section 3). */
#define LOW_US 1000000
/* Below this rtt the buffer cannot be told from timers (tcp_htcp). */
#define SHORT_US 10000
/* The most by which one sample may raise the longest rtt (tcp_htcp). */
#define RISE_US 20000

struct own {
	__u64 since;        /* when congestion avoidance began after the last loss, us */
	__u64 since_before; /* for undo; 0 while there is nothing to undo */
	__u64 owed;
	__u64 counted_from;
	__u32 alpha; /* packets a round, in 1/128 */
	__u32 least_rtt;
	__u32 longest_rtt;
	__u32 longest_before;
	__u32 counted;
	__u32 rate; /* packets a second, smoothed */
	__u32 largest_rate;
	__u32 rate_before;
	__u32 rate_undo;
	__u16 left; /* beta */
	__u16 adapting;
	__u32 pending; /* packets of the last acknowledgement, as tcp_htcp counts them */
	__u32 sampled;
};

/* alpha(Delta) = 1 + 10 (Delta - 1) + ((Delta - 1) / 2)^2, scaled by the rtt, times 2 (1 - beta) (draft, section 3). */
static __always_inline __u32 alpha_now(const struct own *own, __u64 now)
{
	__u64 since = now > own->since ? now - own->since : 0;
	__u64 factor = ONE; /* in 1/128 */

	if (since > LOW_US) {
		__u64 over = (since - LOW_US) / 1000; /* ms */

		factor = ONE + 10 * ONE * over / 1000 + ONE * over * over / 4000000;
	}
	/* tcp_htcp works with whole packets, before the scaling and after it. */
	if (!config.paper)
		factor = factor / ONE * ONE;
	/* Divided by 0.1 s / rtt, that within a half and ten. */
	if (own->least_rtt) {
		__u64 scale = 100000ULL * ONE / own->least_rtt;

		if (scale < ONE / 2)
			scale = ONE / 2;
		if (scale > 10 * ONE)
			scale = 10 * ONE;
		factor = factor * ONE / scale;
	}
	if (!config.paper)
		factor = factor / ONE * ONE;
	if (factor < ONE)
		factor = ONE;
	factor = 2 * factor * (ONE - own->left) / ONE;
	return factor ? factor : ONE;
}

/* beta (draft, section 3): rtt_min / rtt_max, but a half when throughput changed by a fifth, or for the first time. */
static __always_inline void adapt(struct own *own)
{
	__u32 before = own->rate_before, now = own->largest_rate;

	own->rate_before = now;
	if (!before || 5ULL * now < 4ULL * before || 5ULL * now > 6ULL * before) {
		own->left = LEFT_LEAST;
		own->adapting = 0;
		return;
	}
	/* tcp_htcp adapts only from the second quiet loss on. */
	if ((config.paper || own->adapting) && own->least_rtt > SHORT_US && own->longest_rtt) {
		__u64 left = (__u64)own->least_rtt * ONE / own->longest_rtt;

		own->left = at_least(at_most(left, LEFT_MOST), LEFT_LEAST);
	} else {
		own->left = LEFT_LEAST;
	}
	own->adapting = 1;
}

SEC("struct_ops/init")
void BPF_PROG(init, struct sock *sk)
{
	struct own *own = OWN(sk, own);

	own->since = tcp_sk(sk)->tcp_mstamp;
	own->since_before = 0;
	own->owed = 0;
	own->counted_from = own->since;
	own->alpha = ONE;
	own->least_rtt = 0;
	own->longest_rtt = 0;
	own->longest_before = 0;
	own->counted = 0;
	own->rate = 0;
	own->largest_rate = 0;
	own->rate_before = 0;
	own->rate_undo = 0;
	own->left = LEFT_LEAST;
	own->adapting = 0;
	own->pending = 1;
	own->sampled = 0;
}

SEC("struct_ops/ssthresh")
__u32 BPF_PROG(ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct own *own = OWN(sk, own);

	own->rate_undo = own->rate_before;
	adapt(own);
	own->alpha = alpha_now(own, tp->tcp_mstamp);
	own->owed = 0;
	/* The longest rtt fades, so that an old queue is forgotten (tcp_htcp). */
	if (own->least_rtt && own->longest_rtt > own->least_rtt)
		own->longest_rtt = own->least_rtt + (__u32)((__u64)(own->longest_rtt - own->least_rtt) * 95 / 100);
	return at_least((__u32)(((__u64)tp->snd_cwnd * own->left) / ONE), 2);
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
		} else if (!config.paper) {
			/* tcp_htcp: at most one packet for an acknowledgement, and what is over is forgotten. */
			if (((__u64)tp->snd_cwnd_cnt * own->alpha) / ONE >= tp->snd_cwnd) {
				grow(tp, 1);
				tp->snd_cwnd_cnt = 0;
				own->alpha = alpha_now(own, tp->tcp_mstamp);
			} else {
				tp->snd_cwnd_cnt += own->pending;
			}
			own->pending = 1;
		}
		if (config.paper && acked) {
			own->alpha = alpha_now(own, tp->tcp_mstamp);
			grow_exactly(tp, &own->owed, (__u64)own->alpha << 3, acked);
		}
	}
	sample(sk, &own->sampled);
}

SEC("struct_ops/pkts_acked")
void BPF_PROG(pkts_acked, struct sock *sk, const struct ack_sample *ack)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct own *own = OWN(sk, own);
	__u8 state = BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state);
	__u64 now = tp->tcp_mstamp;
	__s32 rtt = ack->rtt_us;

	if (state == OPEN)
		own->pending = ack->pkts_acked;
	if (rtt > 0) {
		__u32 us = rtt;

		if (!own->least_rtt || us < own->least_rtt)
			own->least_rtt = us;
		if (state == OPEN) {
			if (own->longest_rtt < own->least_rtt)
				own->longest_rtt = own->least_rtt;
			if (us > own->longest_rtt && us <= own->longest_rtt + RISE_US)
				own->longest_rtt = us;
		}
	}
	/* Throughput, a round at a time, outside recovery. */
	if (state != OPEN && state != DISORDER) {
		own->counted = 0;
		own->counted_from = now;
		return;
	}
	own->counted += ack->pkts_acked;
	__u64 elapsed = now - own->counted_from;
	__u32 added = at_least(own->alpha / ONE, 1);

	if (own->counted + added >= tp->snd_cwnd && own->least_rtt && elapsed >= own->least_rtt) {
		__u32 rate = (__u64)own->counted * 1000000 / elapsed;

		/* Soon after a loss the rate says nothing of the path (tcp_htcp: three rounds). */
		if (now - own->since <= 3ULL * own->least_rtt) {
			own->rate = rate;
			own->largest_rate = rate;
		} else {
			own->rate = (3 * own->rate + rate) / 4;
			own->largest_rate = at_least(own->largest_rate, own->rate);
		}
		own->counted = 0;
		own->counted_from = now;
	}
}

SEC("struct_ops/set_state")
void BPF_PROG(set_state, struct sock *sk, __u8 state)
{
	struct own *own = OWN(sk, own);
	__u64 now = tcp_sk(sk)->tcp_mstamp;

	if (state == CWR || state == RECOVERY || state == LOSS) {
		if (!own->since_before) {
			own->since_before = own->since ? own->since : 1;
			own->longest_before = own->longest_rtt;
		}
		own->since = now;
	} else if (state == OPEN && own->since_before) {
		own->since = now;
		own->since_before = 0;
	}
	changed(sk, state);
}

SEC("struct_ops/undo_cwnd")
__u32 BPF_PROG(undo_cwnd, struct sock *sk)
{
	struct own *own = OWN(sk, own);

	if (own->since_before) {
		own->since = own->since_before;
		own->longest_rtt = own->longest_before;
		own->rate_before = own->rate_undo;
		own->since_before = 0;
	}
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops fl_htcp = {
	.init = (void *)init,
	.ssthresh = (void *)ssthresh,
	.cong_avoid = (void *)cong_avoid,
	.set_state = (void *)set_state,
	.pkts_acked = (void *)pkts_acked,
	.undo_cwnd = (void *)undo_cwnd,
	.name = "htcp",
	.flags = TCP_CONG_NON_RESTRICTED,
};
