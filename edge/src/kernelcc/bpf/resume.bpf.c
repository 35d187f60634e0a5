/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The kernel's own CUBIC over a path that an earlier flow measured: Careful Resume (RFC 9959). */
#include "flow.h"


/* What is read beyond flow.h, under names of the kernel's. */
struct sock___pace {
	__u32 sk_pacing_status;
} CORE;

extern void cubictcp_init(struct sock *sk) __ksym;
extern __u32 cubictcp_recalc_ssthresh(struct sock *sk) __ksym;
extern void cubictcp_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern void cubictcp_state(struct sock *sk, __u8 new_state) __ksym;
extern void cubictcp_cwnd_event(struct sock *sk, enum tcp_ca_event event) __ksym;
extern void cubictcp_acked(struct sock *sk, const struct ack_sample *sample) __ksym;

/* Written by the loader: what an earlier copy saw, of which this is one flow's part. */
struct saved {
	__u64 in_flight; /* bytes on their way that arrived */
	__u64 rtt_us;    /* the least round trip */
	__u64 fills;     /* whether that was all that the path had */
};
const volatile struct saved saved SEC(".rodata.saved") = { .in_flight = 0 };

/* The first window (RFC 6928): when it has arrived, the path is confirmed or not. */
#define FIRST_WINDOW 10
/* The path is another where its round trip is below half of the saved one, or ten times as long (RFC 9959, 3.2). */
#define MOST_RTT 10
/* include/net/sock.h: TCP paces by itself where no fq does. */
#define PACING_NONE 0
#define PACING_NEEDED 1
/* include/net/tcp.h: slow start has no end yet. */
#define INFINITE_SSTHRESH 0x7fffffff

/* The phases of RFC 9959, section 4. */
enum phase { RECONNAISSANCE = 0, UNVALIDATED, VALIDATING, RETREAT, NORMAL };

/* Behind the 60 bytes of the kernel's struct bictcp. */
#define BEHIND_CUBIC 8
struct own {
	__u64 cubic[BEHIND_CUBIC];
	__u32 phase;
	__u32 delivered; /* when this phase began */
	__u32 edge;      /* the first byte of this phase */
	__u32 pipe;      /* packets that the path was shown to hold */
	__u32 jump;      /* packets that may go without proof */
	__u32 paced;     /* whether the pacing is ours */
};

static __always_inline __u32 segment(struct sock *sk)
{
	return at_least(tcp_sk(sk)->mss_cache, 1);
}

static __always_inline void pace(struct sock *sk, struct own *own)
{
	struct sock___pace *pacing = (struct sock___pace *)sk;

	if (pacing->sk_pacing_status == PACING_NONE) {
		pacing->sk_pacing_status = PACING_NEEDED;
		own->paced = 1;
	}
}

static __always_inline void pace_no_more(struct sock *sk, struct own *own)
{
	if (own->paced) {
		((struct sock___pace *)sk)->sk_pacing_status = PACING_NONE;
		own->paced = 0;
	}
}

/* What was paced over a round trip comes back so, which CUBIC's HyStart takes for a full path where nothing paces (hystart_update): a
 * slow start that goes on is paced to its end. */
static __always_inline void go_on(struct sock *sk, struct own *own)
{
	own->phase = NORMAL;
	if (!in_slow_start(tcp_sk(sk)))
		pace_no_more(sk, own);
}

SEC("struct_ops/init")
void BPF_PROG(init, struct sock *sk)
{
	struct own *own = OWN(sk, own);

	cubictcp_init(sk);
	own->phase = RECONNAISSANCE;
	own->delivered = tcp_sk(sk)->delivered;
	own->paced = 0;
	own->jump = saved.in_flight / 2 / segment(sk);
}

/* Whether the path is the one that was saved. */
static __always_inline bool is_confirmed(struct tcp_sock *tp)
{
	__u64 rtt = tp->srtt_us >> 3;

	return rtt * 2 >= saved.rtt_us && rtt < saved.rtt_us * MOST_RTT;
}

SEC("struct_ops/cong_avoid")
void BPF_PROG(cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct own *own = OWN(sk, own);

	switch (own->phase) {
	case RECONNAISSANCE:
		cubictcp_cong_avoid(sk, ack, acked);
		if (tp->delivered - own->delivered < FIRST_WINDOW)
			return;
		/* A flow that has no use for its first window has none for a jump, and where slow start has ended since, for this
		 * came behind its first data, the path has said what it holds. */
		if (!is_confirmed(tp) || !window_limited(tp) || tp->snd_cwnd >= own->jump ||
		    !in_slow_start(tp)) {
			go_on(sk, own);
			return;
		}
		own->phase = UNVALIDATED;
		own->edge = tp->snd_nxt;
		own->pipe = tp->packets_out;
		pace(sk, own);
		/* Slow start ends at what filled the path before; the kernel paces a jump that is half of it over a round trip. */
		tp->snd_ssthresh = 2 * own->jump;
		tp->snd_cwnd = at_most(own->jump, tp->snd_cwnd_clamp);
		return;
	case UNVALIDATED:
		own->pipe += acked;
		if ((__s32)(ack - own->edge) <= 0)
			return;
		/* What was sent without proof begins to arrive: nothing more of it, and what is on its way may stay. */
		own->phase = VALIDATING;
		own->edge = tp->snd_nxt;
		/* Of a path that was not full nothing is known beyond what it held. */
		if (!saved.fills)
			tp->snd_ssthresh = INFINITE_SSTHRESH;
		tp->snd_cwnd = at_most(own->jump, at_least(tp->packets_out, FIRST_WINDOW));
		return;
	case VALIDATING:
		own->pipe += acked;
		cubictcp_cong_avoid(sk, ack, acked);
		if ((__s32)(ack - own->edge) >= 0)
			go_on(sk, own);
		return;
	default:
		cubictcp_cong_avoid(sk, ack, acked);
		if (!in_slow_start(tp))
			pace_no_more(sk, own);
	}
}

SEC("struct_ops/ssthresh")
__u32 BPF_PROG(ssthresh, struct sock *sk)
{
	struct own *own = OWN(sk, own);
	__u32 window = cubictcp_recalc_ssthresh(sk);

	if (own->phase != UNVALIDATED && own->phase != VALIDATING)
		return window;
	own->phase = RETREAT;
	return at_least(own->pipe / 2, FIRST_WINDOW);
}

SEC("struct_ops/set_state")
void BPF_PROG(set_state, struct sock *sk, __u8 state)
{
	struct own *own = OWN(sk, own);

	if (own->phase == RETREAT && state == OPEN) {
		/* Slow start may go on to what has arrived (RFC 9959, section 4). */
		tcp_sk(sk)->snd_ssthresh = at_least(own->pipe, FIRST_WINDOW);
		own->phase = NORMAL;
		pace_no_more(sk, own);
	}
	cubictcp_state(sk, state);
}

SEC("struct_ops/cwnd_event")
void BPF_PROG(cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	cubictcp_cwnd_event(sk, event);
}

SEC("struct_ops/pkts_acked")
void BPF_PROG(pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct own *own = OWN(sk, own);

	/* A jump tells HyStart nothing. */
	if (own->phase != UNVALIDATED && own->phase != VALIDATING)
		cubictcp_acked(sk, sample);
}

SEC("struct_ops/undo_cwnd")
__u32 BPF_PROG(undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops fl_cubic = {
	.init = (void *)init,
	.ssthresh = (void *)ssthresh,
	.cong_avoid = (void *)cong_avoid,
	.set_state = (void *)set_state,
	.cwnd_event = (void *)cwnd_event,
	.pkts_acked = (void *)pkts_acked,
	.undo_cwnd = (void *)undo_cwnd,
	.name = "cubic.0",
	.flags = TCP_CONG_NON_RESTRICTED,
};
