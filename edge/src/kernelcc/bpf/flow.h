/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What the controls share: the kernel's structures as far as they are read, slow start, and the trace. */
#ifndef FARLINE_FLOW_H
#define FARLINE_FLOW_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u16 __sum16;
typedef _Bool bool;

enum { BPF_MAP_TYPE_RINGBUF = 27 };

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

/* Offsets are found by the loader from the running kernel's BTF (CO-RE): only names and types count here. */
#define CORE __attribute__((preserve_access_index))

struct in6_addr {
	union {
		__be32 u6_addr32[4];
	} in6_u;
} CORE;

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	__u16 skc_family;
	struct in6_addr skc_v6_daddr;
} CORE;

struct sock {
	struct sock_common __sk_common;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
} CORE;

struct inet_sock {
	struct sock sk;
} CORE;

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	__u8 icsk_ca_state : 5;
	__u64 icsk_ca_priv[13];
} CORE;

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 snd_cwnd;
	__u32 snd_cwnd_cnt;
	__u32 snd_cwnd_clamp;
	__u32 snd_ssthresh;
	__u32 snd_nxt;
	__u32 srtt_us;
	__u32 mss_cache;
	__u32 max_packets_out;
	__u32 packets_out;
	__u32 delivered;
	__u32 lost;
	__u64 tcp_mstamp;
	__u8 is_cwnd_limited : 1;
} CORE;

struct ack_sample {
	__u32 pkts_acked;
	__s32 rtt_us;
} CORE;

enum tcp_ca_state { OPEN = 0, DISORDER = 1, CWR = 2, RECOVERY = 3, LOSS = 4 };
enum tcp_ca_event { TX_START = 0, CWND_RESTART = 1 };

/* Laid out by hand: the loader writes `name` at its place. Members are matched with the kernel's by name. */
struct tcp_congestion_ops {
	void (*init)(struct sock *sk);
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	void (*set_state)(struct sock *sk, __u8 state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	__u32 (*undo_cwnd)(struct sock *sk);
	char name[16];
	__u32 flags;
	void (*cong_control)(struct sock *sk);
};

/* Whoever may open a socket may select the control: farline loads it for its user's transfer. */
#define TCP_CONG_NON_RESTRICTED 1

extern __u32 tcp_slow_start(struct tcp_sock *tp, __u32 acked) __ksym;
extern void tcp_cong_avoid_ai(struct tcp_sock *tp, __u32 w, __u32 acked) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

/* Written by the loader before the programs are verified. */
struct config {
	__u32 paper;    /* 1: the constants of the paper or RFC; 0: those of Linux's module */
	__u32 trace_us; /* least microseconds between two window samples of a flow; 0: no trace */
	char name[16];  /* as registered */
};
const volatile struct config config SEC(".rodata.config") = { .paper = 0 };

/* One line of a trace; `edge/src/kernelcc/trace.rs` reads it field by field. */
struct event {
	__u64 time_us;
	__u64 flow;
	__u32 cwnd;
	__u32 ssthresh;
	__u32 srtt_us;
	__u32 lost;
	__u32 delivered;
	__u16 local_port;
	__be16 remote_port;
	__u16 family;
	__u8 state;
	__u8 changed; /* 1: the event is a change of state; 0: a sample */
	__u32 pad;
	__be32 remote[4];
	char name[16];
};

#define EVENTS(map)                                     \
	struct {                                        \
		__uint(type, BPF_MAP_TYPE_RINGBUF);     \
		__uint(max_entries, 1 << 20);           \
	} map SEC(".maps");                             \
	static __always_inline void *events(void) { return &map; }

static __always_inline struct tcp_sock *tcp_sk(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static __always_inline bool in_slow_start(const struct tcp_sock *tp)
{
	return tp->snd_cwnd < tp->snd_ssthresh;
}

/* Whether the window is what holds the flow back (RFC 9438, 5.8); slow start may double what was used. */
static __always_inline bool window_limited(struct tcp_sock *tp)
{
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return 1;
	return in_slow_start(tp) && tp->snd_cwnd < 2 * tp->max_packets_out;
}

static __always_inline __u32 at_least(__u32 value, __u32 least)
{
	return value > least ? value : least;
}

static __always_inline __u32 at_most(__u32 value, __u32 most)
{
	return value < most ? value : most;
}

/* Adds whole packets, within the clamp. */
static __always_inline void grow(struct tcp_sock *tp, __u32 packets)
{
	tp->snd_cwnd = at_most(tp->snd_cwnd + packets, tp->snd_cwnd_clamp);
}

/*
 * Grows by `step` 1/1024 packets for a window of acknowledged packets, exactly: `owed` keeps the rest, in packets times
 * window / 1024. With offloads one acknowledgement stands for dozens of packets, so more than one packet may be due.
 */
static __always_inline void grow_exactly(struct tcp_sock *tp, __u64 *owed, __u64 step, __u32 acked)
{
	__u64 whole = (__u64)tp->snd_cwnd << 10;

	*owed += step * acked;
	if (*owed >= whole && whole) {
		__u64 due = *owed / whole;

		*owed -= due * whole;
		grow(tp, due);
		if (tp->snd_cwnd >= tp->snd_cwnd_clamp)
			*owed = 0;
	}
}

static __always_inline void emit(struct sock *sk, void *map, __u8 state, __u8 changed)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct event *event;

	event = bpf_ringbuf_reserve(map, sizeof(*event), 0);
	if (!event)
		return;
	event->time_us = tp->tcp_mstamp;
	event->flow = (__u64)sk;
	event->cwnd = tp->snd_cwnd;
	event->ssthresh = tp->snd_ssthresh;
	event->srtt_us = tp->srtt_us >> 3;
	event->lost = tp->lost;
	event->delivered = tp->delivered;
	event->local_port = sk->__sk_common.skc_num;
	event->remote_port = sk->__sk_common.skc_dport;
	event->family = sk->__sk_common.skc_family;
	event->state = state;
	event->changed = changed;
	event->pad = 0;
	if (event->family == 2) {
		event->remote[0] = sk->__sk_common.skc_daddr;
		event->remote[1] = event->remote[2] = event->remote[3] = 0;
	} else {
		event->remote[0] = sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32[0];
		event->remote[1] = sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32[1];
		event->remote[2] = sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32[2];
		event->remote[3] = sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32[3];
	}
	for (int i = 0; i < 16; i++)
		event->name[i] = config.name[i];
	bpf_ringbuf_submit(event, 0);
}

/* A sample, when the last one of this flow is old enough; `last` is the flow's. */
#define sample(sk, last)                                                                    \
	do {                                                                                \
		if (config.trace_us && (__u32)tcp_sk(sk)->tcp_mstamp - *(last) >= config.trace_us) { \
			*(last) = (__u32)tcp_sk(sk)->tcp_mstamp;                            \
			emit(sk, events(), BPF_CORE_READ_BITFIELD(&tcp_sk(sk)->inet_conn, icsk_ca_state), 0); \
		}                                                                           \
	} while (0)

/* A change of state. */
#define changed(sk, state)                                        \
	do {                                                      \
		if (config.trace_us)                              \
			emit(sk, events(), state, 1);             \
	} while (0)

/* The flow's own 104 bytes. */
#define OWN(sk, type)                                                                                       \
	({                                                                                                  \
		_Static_assert(sizeof(struct type) <= 104, "more than the kernel keeps for a control");     \
		(struct type *)tcp_sk(sk)->inet_conn.icsk_ca_priv;                                          \
	})

/* The kernel asks that a program be GPL-compatible; these may be used under MIT as well. */
char _license[] SEC("license") = "Dual MIT/GPL";

#endif
