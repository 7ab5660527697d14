//! What to look at first on real NICs, where no program of ours was ever run, in the order to do it. docs/limits.md says the same; a test
//! compares them.

/// What, and how.
pub(super) const CHECK_FIRST: &[[&str; 2]] = &[
    ["GID", "antiphase-verbs devices: the job's GID index (NCCL_IB_GID_INDEX) is of roce-v2"],
    ["counters", "antiphase-agent counters: names of marks and CNPs are there, or optional ones to switch on (rdma statistic set)"],
    ["lifespan", "hw_counters/lifespan of each port is at most 10 ms; above, ends of starts by bytes come late"],
    ["queue pairs", "as root antiphase-agent queues: those of each rank have its job, on the devices of its NICs"],
    ["priority", "traffic class of the job (NCCL_IB_TC) and the queue that marks are of one DSCP: tcpdump, or counters of the queue"],
    ["PFC", "ethtool -S INTERFACE: prioN_pause stays near 0, and only for the priority of RoCE at both ends of each cable"],
    ["marks", "under load antiphase_agent_port_ecn_marked_rx_total rises at receivers; never: the switch's queue marks nothing"],
    ["CNPs", "cnp_tx rises where marks come in, cnp_rx_handled at the senders; cnp_rx_ignored rises: rate control is off there"],
    ["losses", "seq_err, ack_timeout and retrans stay at 0: each is a packet lost in a fabric that should lose none"],
    ["clock", "antiphase agents: each clock bound is below the slack of the jobs of that host (antiphase jobs)"],
    ["gate", "antiphase turns: WAITS of a job that gains is some percent, AT BOUND is 0; gate.step() stands where nothing is in flight"],
];
