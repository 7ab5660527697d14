//! Pauses of one priority (PFC, IEEE 802.1Q clause 36), under the names that drivers give them in their ethtool statistics.
//!
//! Names come from the drivers' sources and documents: mlx5_core, bnxt_en, ice and i40e. None was ever read from such a NIC by this
//! project. A driver may show priorities on which PFC is off, and mlx5_core shows none of those.

/// What is counted of one priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pause {
    /// Frames received that stopped it.
    Received,
    /// Frames sent that stopped it at the neighbour.
    Sent,
    /// Microseconds for which it was stopped.
    ReceivedMicros,
    /// Microseconds for which it was stopped at the neighbour.
    SentMicros,
}

impl Pause {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Received, Self::Sent, Self::ReceivedMicros, Self::SentMicros];

    /// The canonical name, without the unit of time.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Received => "pfc_received",
            Self::Sent => "pfc_sent",
            Self::ReceivedMicros => "pfc_paused_seconds",
            Self::SentMicros => "pfc_pausing_seconds",
        }
    }
}

/// What stands before and behind the number of the priority.
const NAMES: [(&str, &str, Pause); 14] = [
    // mlx5_core.
    ("rx_prio", "_pause", Pause::Received),
    ("tx_prio", "_pause", Pause::Sent),
    ("rx_prio", "_pause_duration", Pause::ReceivedMicros),
    ("tx_prio", "_pause_duration", Pause::SentMicros),
    // bnxt_en.
    ("rx_pfc_ena_frames_pri", "", Pause::Received),
    ("tx_pfc_ena_frames_pri", "", Pause::Sent),
    ("pfc_pri", "_rx_duration_us", Pause::ReceivedMicros),
    ("pfc_pri", "_tx_duration_us", Pause::SentMicros),
    // ice; an XOFF stops, an XON lets go on.
    ("rx_priority_", "_xoff.nic", Pause::Received),
    ("tx_priority_", "_xoff.nic", Pause::Sent),
    // i40e.
    ("port.rx_priority_", "_xoff", Pause::Received),
    ("port.tx_priority_", "_xoff", Pause::Sent),
    ("port.rx_priority_", "_xoff.nic", Pause::Received),
    ("port.tx_priority_", "_xoff.nic", Pause::Sent),
];

/// What the statistic of that name counts, and of which priority; `None` for any other.
#[must_use]
pub fn pause(name: &str) -> Option<(Pause, u8)> {
    NAMES.iter().find_map(|(before, behind, what)| {
        let [priority] = name.strip_prefix(before)?.strip_suffix(behind)?.as_bytes() else { return None };
        // There are eight priorities, so one digit has to be left.
        (b'0'..=b'7').contains(priority).then(|| (*what, priority - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names as they stand in the sources of the drivers, with others beside them that are not pauses of a priority.
    #[test]
    fn drivers_say_it_differently() {
        let mlx5 = ["rx_prio3_pause", "tx_prio0_pause", "rx_prio7_pause_duration", "tx_prio3_pause_duration"];
        assert_eq!(
            mlx5.map(pause),
            [Some((Pause::Received, 3)), Some((Pause::Sent, 0)), Some((Pause::ReceivedMicros, 7)), Some((Pause::SentMicros, 3))]
        );
        let bnxt = ["rx_pfc_ena_frames_pri5", "tx_pfc_ena_frames_pri5", "pfc_pri5_rx_duration_us", "pfc_pri5_tx_duration_us"];
        assert_eq!(bnxt.map(|name| pause(name).map(|(what, _)| what)), Pause::ALL.map(Some));
        let intel = ["rx_priority_4_xoff.nic", "tx_priority_4_xoff.nic", "port.rx_priority_4_xoff", "port.tx_priority_4_xoff"];
        assert_eq!(
            intel.map(|name| pause(name).map(|(what, priority)| (what.name(), priority))),
            [Some(("pfc_received", 4)), Some(("pfc_sent", 4)), Some(("pfc_received", 4)), Some(("pfc_sent", 4))]
        );
        let others = [
            "rx_prio3_pause_transition",
            "rx_prio3_bytes",
            "rx_prio3_cong_discard",
            "rx_global_pause",
            "rx_pause_ctrl_phy",
            "rx_prio8_pause",
            "rx_prio10_pause",
            "rx_prio_pause",
            "pfc_pri0_rx_transitions",
            "rx_priority_4_xon.nic",
            "rx_priority_4_xon_2_xoff",
            "",
            "rx_prio",
            "rx_queue_0_xdp_packets",
            "rx_prio\u{663}_pause",
        ];
        assert!(others.iter().all(|name| pause(name).is_none()), "{:?}", others.map(pause));
    }
}
