/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Scalable TCP: a fixed fraction of the window each round, an eighth off on a loss (Kelly, CCR 33(2), 2003). */
#include "flow.h"

EVENTS(ev_scalable)

/* lwnd (section 3.2): up to this window Scalable is Reno. */
#define LOW_WINDOW 16
/* One packet for as many acknowledged: 1/a with a = 0.01 (section 2); tcp_scalable too, since Linux 5.7 (50 before, of acknowledgements). */
#define ACKS 100
/* b = 1/8 (section 2). */
#define DECREASE_SHIFT 3

struct own {
	__u32 sampled;
};

SEC("struct_ops/init")
void BPF_PROG(init, struct sock *sk)
{
	OWN(sk, own)->sampled = 0;
}

SEC("struct_ops/ssthresh")
__u32 BPF_PROG(ssthresh, struct sock *sk)
{
	__u32 cwnd = tcp_sk(sk)->snd_cwnd;

	if (config.paper && cwnd <= LOW_WINDOW)
		return at_least(cwnd >> 1, 2);
	return at_least(cwnd - (cwnd >> DECREASE_SHIFT), 2);
}

SEC("struct_ops/cong_avoid")
void BPF_PROG(cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (window_limited(tp)) {
		if (in_slow_start(tp))
			acked = tcp_slow_start(tp, acked);
		if (acked) {
			__u32 cwnd = tp->snd_cwnd;
			/* tcp_scalable has no lwnd: it is Reno until Reno is slower. */
			__u32 low = config.paper ? LOW_WINDOW : ACKS;

			tcp_cong_avoid_ai(tp, cwnd > low ? ACKS : at_least(cwnd, 1), acked);
		}
	}
	sample(sk, &OWN(sk, own)->sampled);
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
struct tcp_congestion_ops fl_scalable = {
	.init = (void *)init,
	.ssthresh = (void *)ssthresh,
	.cong_avoid = (void *)cong_avoid,
	.set_state = (void *)set_state,
	.undo_cwnd = (void *)undo_cwnd,
	.name = "scalable",
	.flags = TCP_CONG_NON_RESTRICTED,
};
