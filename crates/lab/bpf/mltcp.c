// MLTCP over Reno (arXiv 2402.09589, section 3) as a congestion control of the kernel: the window of a flow grows by
// F = 0.25 + 1.75 x the part of the iteration's bytes that have been acknowledged, in place of 1, for each round trip. So the job
// that is nearer to the end of what it sends gets more of a link, and jobs slide apart over some iterations.
//
// An iteration ends where nothing was acknowledged for GAP_NS, and its bytes are those of the longest iteration so far, as in the
// paper's algorithm 1. What the kernel does on marks and losses is Reno's; unlike Reno's, the window also grows while the sender waits
// for something else.
//
// Set on the command line: NAME, by which sockets and bpftool know it; below 16 characters.

typedef unsigned char u8;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define QUOTED(name) #name
#define TEXT(name) QUOTED(name)
// Longer than a stall of a loaded link, shorter than any Down phase of a case.
#define GAP_NS 20000000ULL
// F in thousandths, at 0 bytes and what is added at all.
#define F_MIN 250
#define F_SLOPE 1750

static u64 (*now_ns)(void) = (void *)5;
static struct tcp_sock *(*tcp_of)(void *sk) = (void *)137;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct sock {
	int unused;
};
struct inet_connection_sock {
	u64 icsk_ca_priv[13];
};
struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u32 snd_cwnd;
	u32 snd_ssthresh;
	u64 bytes_acked;
};
struct tcp_congestion_ops {
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	u32 (*undo_cwnd)(struct sock *sk);
	void (*init)(struct sock *sk);
	char name[16];
};
#pragma clang attribute pop

// The kernel's own Reno, which it offers to programs like this one.
extern u32 tcp_reno_ssthresh(struct sock *sk) SEC(".ksyms");
extern u32 tcp_reno_undo_cwnd(struct sock *sk) SEC(".ksyms");
extern u32 tcp_slow_start(struct tcp_sock *tp, u32 acked) SEC(".ksyms");
extern void tcp_cong_avoid_ai(struct tcp_sock *tp, u32 w, u32 acked) SEC(".ksyms");

// Lies in the socket, in the room for congestion controls (104 bytes).
struct flow {
	u64 acked_at;
	// Acknowledged when the iteration began, and most in one iteration.
	u64 began_at;
	u64 total;
};

static inline struct flow *flow_of(struct sock *sk)
{
	return (struct flow *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

// The kernel's part of a send comes as an array of arguments.
SEC("struct_ops/mltcp_init") void mltcp_init(u64 *args)
{
	struct sock *sk = (struct sock *)args[0];
	struct flow *flow = flow_of(sk);

	flow->acked_at = now_ns();
	flow->began_at = 0;
	flow->total = 0;
}

SEC("struct_ops/mltcp_ssthresh") u32 mltcp_ssthresh(u64 *args)
{
	return tcp_reno_ssthresh((struct sock *)args[0]);
}

SEC("struct_ops/mltcp_undo_cwnd") u32 mltcp_undo_cwnd(u64 *args)
{
	return tcp_reno_undo_cwnd((struct sock *)args[0]);
}

SEC("struct_ops/mltcp_cong_avoid") void mltcp_cong_avoid(u64 *args)
{
	struct sock *sk = (struct sock *)args[0];
	u32 acked = (u32)args[2];
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct flow *flow = flow_of(sk);
	u64 now = now_ns(), bytes = tp->bytes_acked, sent, f;
	u32 w;

	if (now - flow->acked_at > GAP_NS)
		flow->began_at = bytes;
	flow->acked_at = now;
	sent = bytes - flow->began_at;
	if (sent > flow->total)
		flow->total = sent;
	if (tp->snd_cwnd < tp->snd_ssthresh) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	f = F_MIN + (flow->total ? F_SLOPE * sent / flow->total : 0);
	w = (u32)(tp->snd_cwnd * 1000ULL / f);
	tcp_cong_avoid_ai(tp, w ? w : 1, acked);
}

SEC(".struct_ops")
struct tcp_congestion_ops NAME = {
	.init = (void *)mltcp_init,
	.ssthresh = (void *)mltcp_ssthresh,
	.cong_avoid = (void *)mltcp_cong_avoid,
	.undo_cwnd = (void *)mltcp_undo_cwnd,
	.name = TEXT(NAME),
};

char _license[] SEC("license") = "GPL";
