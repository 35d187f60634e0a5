/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A held rate: what SO_MAX_PACING_RATE says is sent from the first round trip on, losses are made good and no rate is given back,
 * until loss or a queue shows for several rounds that the path is not reserved. The machine is core/src/congestion/held.rs.
 */
#include "flow.h"

EVENTS(ev_held)

/* A fiftieth of a round's packets is more than a reserved path loses; so many packets are chance, though. */
#define MOST_LOST 50
#define CHANCE 2
/* A round trip longer than the least by a half and by this, in us, has a queue in it. */
#define QUEUED_LEAST 10000
/* A round is the least round trip, and at least so long, in us. */
#define LEAST_ROUND 20000
#define BAD_ROUNDS 3
/* Of 1024: what is kept of the rate at a step, and the least of it. */
#define WHOLE 1024
#define KEPT 870
#define LEAST 51
/* The window in least round trips, and the least one in packets. */
#define WINDOWS 4
#define LEAST_WINDOW 64
/* No rtt yet. */
#define NONE 0xffffffffu
/* SO_MAX_PACING_RATE was not set. */
#define UNLIMITED (~0ul)

struct own {
	__u32 least;      /* the least rtt ever, us */
	__u32 last;       /* the least of the last round */
	__u32 round;      /* the least of this round */
	__u32 began;      /* when it began, us */
	__u32 delivered;  /* packets that had arrived by then */
	__u32 lost;       /* and that had been found lost */
	__u32 bad_rounds;
	__u32 part;       /* of the rate, of 1024 */
	__u32 sampled;
};

/* What the flow may do now. */
static __always_inline void allow(struct sock *sk, const struct own *own)
{
	struct tcp_sock *tp = tcp_sk(sk);
	unsigned long rate = sk->sk_max_pacing_rate;
	__u64 window, mss = tp->mss_cache;

	/* Nobody said which rate: the first window is all. */
	if (rate == UNLIMITED || !rate)
		return;
	rate = (__u64)rate * own->part / WHOLE;
	sk->sk_pacing_rate = rate;
	/* Without an rtt the pace alone holds it back. */
	window = own->least == NONE ? rate : (__u64)rate * WINDOWS / 1000 * (own->least + QUEUED_LEAST) / 1000;
	window = mss ? window / mss : 0;
	tp->snd_cwnd = at_most(window > LEAST_WINDOW ? window : LEAST_WINDOW, tp->snd_cwnd_clamp);
}

SEC("struct_ops/init")
void BPF_PROG(init, struct sock *sk)
{
	struct own *own = OWN(sk, own);
	struct tcp_sock *tp = tcp_sk(sk);

	own->least = own->last = own->round = NONE;
	own->began = (__u32)tp->tcp_mstamp;
	own->delivered = tp->delivered;
	own->lost = tp->lost;
	own->bad_rounds = 0;
	own->part = WHOLE;
	own->sampled = 0;
	allow(sk, own);
}

/* Once a round. */
static __always_inline void judge(struct tcp_sock *tp, struct own *own)
{
	__u32 arrived = tp->delivered - own->delivered, lost = tp->lost - own->lost;
	bool loses = lost > CHANCE && lost * MOST_LOST > arrived + lost;
	bool queues = own->round != NONE && own->round > own->least + (own->least >> 1) &&
		      own->round > own->least + QUEUED_LEAST;
	/* What was given up is enough for a queue that becomes shorter. */
	bool drains = queues && own->last != NONE && own->round < own->last;

	if (!loses && !queues)
		own->bad_rounds = 0;
	else if (loses || !drains)
		own->bad_rounds++;
	if (own->bad_rounds >= BAD_ROUNDS) {
		own->bad_rounds = 0;
		own->part = at_least(own->part * KEPT / WHOLE, LEAST);
	}
	own->last = own->round;
	own->round = NONE;
	own->began = (__u32)tp->tcp_mstamp;
	own->delivered = tp->delivered;
	own->lost = tp->lost;
}

/* Every acknowledgement. The kernel passes more, and what differs from one kernel to the next. */
SEC("struct_ops/cong_control")
void BPF_PROG(cong_control, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct own *own = OWN(sk, own);
	__u32 round = own->least == NONE ? LEAST_ROUND : at_least(own->least, LEAST_ROUND);

	if ((__u32)tp->tcp_mstamp - own->began >= round)
		judge(tp, own);
	allow(sk, own);
	sample(sk, &own->sampled);
}

SEC("struct_ops/pkts_acked")
void BPF_PROG(pkts_acked, struct sock *sk, const struct ack_sample *ack)
{
	struct own *own = OWN(sk, own);
	__s32 rtt = ack->rtt_us;

	if (rtt < 0)
		return;
	own->least = at_most(own->least, at_least(rtt, 1));
	own->round = at_most(own->round, at_least(rtt, 1));
}

/* No loss takes from the window. */
SEC("struct_ops/ssthresh")
__u32 BPF_PROG(ssthresh, struct sock *sk)
{
	return at_least(tcp_sk(sk)->snd_cwnd, 2);
}

SEC("struct_ops/set_state")
void BPF_PROG(set_state, struct sock *sk, __u8 state)
{
	changed(sk, state);
}

SEC("struct_ops/undo_cwnd")
__u32 BPF_PROG(undo_cwnd, struct sock *sk)
{
	return tcp_sk(sk)->snd_cwnd;
}

/* Without TCP_CONG_NON_RESTRICTED: it takes CAP_NET_ADMIN to hold a rate, whoever loaded this. */
SEC(".struct_ops.link")
struct tcp_congestion_ops fl_held = {
	.init = (void *)init,
	.ssthresh = (void *)ssthresh,
	.cong_control = (void *)cong_control,
	.pkts_acked = (void *)pkts_acked,
	.set_state = (void *)set_state,
	.undo_cwnd = (void *)undo_cwnd,
	.name = "held",
};
