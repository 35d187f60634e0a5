/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Vegas: a window that keeps two to four packets in the path's queues (Brakmo, Peterson, JSAC 13(8), 1995). */
#include "flow.h"

EVENTS(ev_vegas)

/* Packets in queues: fewer than alpha, add one; more than beta, take one away (section IV.B). */
#define ALPHA 2
#define BETA 4
/* More than gamma ends slow start (section IV.C). */
#define GAMMA 1
/* With fewer samples of a round a delayed acknowledgement could pass for a queue: Reno (tcp_vegas). */
#define SAMPLES 2
/* No rtt yet. */
#define NONE 0xffffffffu

struct own {
	__u32 base;       /* the least rtt ever, us */
	__u32 least;      /* the least rtt of this round, us */
	__u32 samples;    /* of this round */
	__u32 round_ends; /* with the acknowledgement of this sequence number */
	__u32 working;    /* outside recovery */
	__u32 grows;      /* whether slow start grows in this round: every other one (section IV.C) */
	__u32 sampled;
};

static __always_inline void begin(struct tcp_sock *tp, struct own *own)
{
	own->working = 1;
	own->round_ends = tp->snd_nxt;
	own->samples = 0;
	own->least = NONE;
}

SEC("struct_ops/init")
void BPF_PROG(init, struct sock *sk)
{
	struct own *own = OWN(sk, own);

	own->base = NONE;
	own->grows = 1;
	own->sampled = 0;
	begin(tcp_sk(sk), own);
}

SEC("struct_ops/ssthresh")
__u32 BPF_PROG(ssthresh, struct sock *sk)
{
	return at_least(tcp_sk(sk)->snd_cwnd >> 1, 2);
}

static __always_inline void reno(struct tcp_sock *tp, __u32 acked)
{
	if (in_slow_start(tp))
		acked = tcp_slow_start(tp, acked);
	if (acked)
		tcp_cong_avoid_ai(tp, at_least(tp->snd_cwnd, 1), acked);
}

/* Once a round. */
static __always_inline void adjust(struct tcp_sock *tp, struct own *own, __u32 acked)
{
	__u32 cwnd = tp->snd_cwnd;

	if (own->samples <= SAMPLES || own->base == NONE) {
		reno(tp, acked);
		return;
	}
	/* The window that would leave the queues empty, and what is in them. A window times microseconds needs 64 bits. */
	__u32 base = at_least(own->base, 1), least = at_least(own->least, base);
	__u32 empty = (__u64)cwnd * base / least;
	__u64 queued = (__u64)cwnd * (least - base) / base;

	if (in_slow_start(tp)) {
		if (queued > GAMMA) {
			tp->snd_cwnd = at_least(at_most(cwnd, empty + 1), 2);
			tp->snd_ssthresh = at_least(at_most(tp->snd_ssthresh, tp->snd_cwnd), 2);
		} else {
			tcp_slow_start(tp, acked);
		}
	} else if (queued > BETA) {
		tp->snd_cwnd = at_least(cwnd - 1, 2);
		tp->snd_ssthresh = at_least(at_most(tp->snd_ssthresh, tp->snd_cwnd), 2);
	} else if (queued < ALPHA) {
		grow(tp, 1);
	}
	/* tcp_vegas: a flow that is left with less on its way comes back to three quarters of its window by slow start. */
	if (!config.paper)
		tp->snd_ssthresh = at_least(tp->snd_ssthresh, (tp->snd_cwnd >> 1) + (tp->snd_cwnd >> 2));
}

SEC("struct_ops/cong_avoid")
void BPF_PROG(cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct own *own = OWN(sk, own);
	/* tcp_vegas grows a window that is not used, too. */
	bool limited = !config.paper || window_limited(tp);

	if (!own->working) {
		if (window_limited(tp))
			reno(tp, acked);
	} else if ((__s32)(own->round_ends - ack) < 0) {
		if (limited)
			adjust(tp, own, acked);
		own->grows = !own->grows || !config.paper;
		begin(tp, own);
	} else if (in_slow_start(tp) && own->grows && limited) {
		tcp_slow_start(tp, acked);
	}
	sample(sk, &own->sampled);
}

SEC("struct_ops/pkts_acked")
void BPF_PROG(pkts_acked, struct sock *sk, const struct ack_sample *ack)
{
	struct own *own = OWN(sk, own);
	__s32 rtt = ack->rtt_us;

	if (rtt < 0)
		return;
	/* One more, so that none is zero (tcp_vegas). */
	__u32 us = rtt + 1;

	own->base = at_most(own->base, us);
	own->least = at_most(own->least, us);
	own->samples++;
}

SEC("struct_ops/set_state")
void BPF_PROG(set_state, struct sock *sk, __u8 state)
{
	struct own *own = OWN(sk, own);

	if (state == OPEN)
		begin(tcp_sk(sk), own);
	else
		own->working = 0;
	changed(sk, state);
}

SEC("struct_ops/cwnd_event")
void BPF_PROG(cwnd_event, struct sock *sk, __u32 event)
{
	struct own *own = OWN(sk, own);

	if (event != CWND_RESTART && event != TX_START)
		return;
	/* After a pause the rtts of before say nothing of the round that begins; to tcp_vegas nothing of the path, either. */
	begin(tcp_sk(sk), own);
	if (!config.paper)
		own->base = NONE;
}

SEC("struct_ops/undo_cwnd")
__u32 BPF_PROG(undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops fl_vegas = {
	.init = (void *)init,
	.ssthresh = (void *)ssthresh,
	.cong_avoid = (void *)cong_avoid,
	.set_state = (void *)set_state,
	.cwnd_event = (void *)cwnd_event,
	.pkts_acked = (void *)pkts_acked,
	.undo_cwnd = (void *)undo_cwnd,
	.name = "vegas",
	.flags = TCP_CONG_NON_RESTRICTED,
};
