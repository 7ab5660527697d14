// A marking queue at the sending end of one link (tc, clsact egress, direct action).
//
// The backlog of the shaped port behind it is modelled, not read: bytes come in as packets pass and drain at the
// link's rate. Between K_MIN and K_MAX bytes of backlog packets that can carry it get the ECN mark with a
// probability that rises to 1, as switches of RoCE fabrics do it. What passed and what was marked is counted per job.
//
// Set on the command line: RATE (bytes per second), K_MIN and K_MAX (bytes).

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define MAP_TYPE_ARRAY 2
#define JOBS 64
#define PASS 0
// ETH_P_IP as it lies in a packet, on a little-endian machine.
#define IPV4 0x0008
// Ethernet header, then the third byte of the IPv4 source address: the lab gives every job a /24.
#define JOB_OFFSET (14 + 12 + 2)
// After this long the queue is empty at any rate of the lab, and the product below still fits 64 bits.
#define IDLE_NS 1000000000ULL

struct __sk_buff {
	u32 len, pkt_type, mark, queue_mapping, protocol;
};
struct bpf_spin_lock {
	u32 val;
};

// Numbers of the kernel's helpers, from its uapi; declared here so that clang alone builds this file.
static void *(*lookup)(void *map, const void *key) = (void *)1;
static u64 (*now_ns)(void) = (void *)5;
static u32 (*random_u32)(void) = (void *)7;
static long (*load_bytes)(const void *packet, u32 offset, void *to, u32 length) = (void *)26;
static long (*lock)(struct bpf_spin_lock *lock) = (void *)93;
static long (*unlock)(struct bpf_spin_lock *lock) = (void *)94;
static long (*set_ce)(void *packet) = (void *)97;

struct backlog {
	struct bpf_spin_lock lock;
	u32 unused;
	u64 bytes;
	u64 drained_at;
	u64 peak;
};
struct traffic {
	u64 packets;
	u64 bytes;
	u64 marks;
};

struct {
	int (*type)[MAP_TYPE_ARRAY];
	int (*max_entries)[1];
	u32 *key;
	struct backlog *value;
} backlog SEC(".maps");
struct {
	int (*type)[MAP_TYPE_ARRAY];
	int (*max_entries)[JOBS];
	u32 *key;
	struct traffic *value;
} traffic SEC(".maps");

SEC("tc") int ecn_queue(struct __sk_buff *packet)
{
	u32 only = 0, job = 0;
	u8 octet = 0;
	u64 length = packet->len, now = now_ns(), depth;
	struct backlog *queue = lookup(&backlog, &only);

	if (!queue || packet->protocol != IPV4 || load_bytes(packet, JOB_OFFSET, &octet, 1))
		return PASS;
	job = octet % JOBS;
	struct traffic *seen = lookup(&traffic, &job);
	if (!seen)
		return PASS;

	lock(&queue->lock);
	u64 idle = now > queue->drained_at ? now - queue->drained_at : 0;
	u64 drained = idle < IDLE_NS ? idle * (u64)RATE / 1000000000ULL : queue->bytes;
	depth = (queue->bytes > drained ? queue->bytes - drained : 0) + length;
	queue->bytes = depth;
	if (now > queue->drained_at)
		queue->drained_at = now;
	if (depth > queue->peak)
		queue->peak = depth;
	unlock(&queue->lock);

	__sync_fetch_and_add(&seen->packets, 1);
	__sync_fetch_and_add(&seen->bytes, length);
	if (depth <= K_MIN)
		return PASS;
	u32 excess = depth - K_MIN < K_MAX - K_MIN ? (u32)(depth - K_MIN) : K_MAX - K_MIN;
	if (random_u32() % (K_MAX - K_MIN) < excess && set_ce(packet) == 1)
		__sync_fetch_and_add(&seen->marks, 1);
	return PASS;
}

char terms[] SEC("license") = "Apache-2.0";
