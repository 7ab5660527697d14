//! What to look at first on real NICs, where no program of ours was ever run (docs/limits.md): most telling first.

/// What, and how.
pub(super) const CHECK_FIRST: &[[&str; 2]] = &[
    ["marks", "under load antiphase_agent_port_ecn_marked_rx_total rises at receivers; never: the switch's queue marks nothing"],
    ["CNPs", "cnp_tx rises where marks come in, cnp_rx_handled at the senders; cnp_rx_ignored rises: rate control is off there"],
    ["PFC", "ethtool -S INTERFACE: prioN_pause stays near 0, and only for the priority of RoCE at both ends of each cable"],
    ["losses", "seq_err, ack_timeout and retrans stay at 0: each is a packet lost in a fabric that should lose none"],
    ["priority", "traffic class of the job (NCCL_IB_TC) and the queue that marks are of one DSCP: tcpdump, or counters of the queue"],
    ["GID", "antiphase-verbs devices: the job's GID index (NCCL_IB_GID_INDEX) is of roce-v2"],
    ["counters", "hw_counters/lifespan of each port is at most 10 ms; above, ends of starts by bytes come late"],
    ["clock", "antiphase agents: each clock bound is below the slack of the jobs of that host (antiphase jobs)"],
    ["gate", "antiphase turns: WAITS of a job that gains is some percent, AT BOUND is 0; gate.step() stands where nothing is in flight"],
];
