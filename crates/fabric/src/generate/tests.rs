use super::*;
use crate::summary::{Oversubscription, summarise};

fn g(gbps: u64) -> Rate {
    Rate(gbps * 1_000)
}

fn ratios(fabric: &Fabric) -> Vec<Option<String>> {
    summarise(fabric).tiers.iter().map(|t| t.oversubscription.map(|o: Oversubscription| o.to_string())).collect()
}

#[test]
fn cassini24_has_the_papers_four_numbers() {
    let f = cassini24().unwrap();
    let s = summarise(&f);
    assert_eq!((s.hosts, s.switches, s.links), (24, 13, 2 * 48));
    assert!(f.links().iter().all(|l| l.capacity == Some(g(50))));
    // 4 x 50 down over 2 x 50 up at the leaf; 3 x 50 over 3 x 50 at the spine; cores have no up.
    assert_eq!(ratios(&f), [Some("2:1".into()), Some("1:1".into()), None]);
    assert_eq!((s.pieces, s.one_way_links), (1, 0));
}

#[test]
fn clos2_counts_and_oversubscription() {
    let spec = Clos2 { leaves: 4, spines: 2, hosts_per_leaf: 8, host_rate: g(100), uplink_rate: g(100), uplinks: 3 };
    let f = clos2(&spec).unwrap();
    let s = summarise(&f);
    // 4 x 8 host cables and 4 x 2 x 3 uplinks, both directions.
    assert_eq!((s.hosts, s.switches, s.links), (32, 6, 2 * (32 + 24)));
    // 800 down over 600 up.
    assert_eq!(ratios(&f), [Some("1.33:1".into()), None]);
}

#[test]
fn clos3_joins_equal_spines_of_all_pods_only() {
    let spec = Clos3 {
        pods: 3,
        leaves_per_pod: 2,
        spines_per_pod: 2,
        cores_per_spine: 4,
        hosts_per_leaf: 5,
        host_rate: g(100),
        uplink_rate: g(200),
        core_rate: g(100),
    };
    let f = clos3(&spec).unwrap();
    let s = summarise(&f);
    assert_eq!((s.hosts, s.switches), (30, 3 * 2 + 3 * 2 + 8));
    assert_eq!(s.links, 2 * (30 + 3 * 2 * 2 + 3 * 2 * 4));
    assert_eq!(ratios(&f), [Some("1.25:1".into()), Some("1:1".into()), None]);
    let core5 = f.find("core5").unwrap();
    let below: Vec<_> = f.links_from(core5).iter().map(|&l| f.node(f.link(l).to.node).name.as_str()).collect();
    assert_eq!(below, ["pod1-spine2", "pod2-spine2", "pod3-spine2"]);
}

#[test]
fn rail_puts_nic_r_on_rail_r() {
    let spec = Rail { groups: 2, hosts_per_group: 4, rails: 8, spines: 4, host_rate: g(400), uplink_rate: g(400), uplinks: 1 };
    let f = rail(&spec).unwrap();
    assert_eq!((summarise(&f).hosts, summarise(&f).switches), (8, 2 * 8 + 4));
    let h6 = f.find("h6").unwrap();
    let seen: Vec<_> = f.links_from(h6).iter().map(|&l| (f.link(l).from.name.clone(), f.node(f.link(l).to.node).name.clone())).collect();
    assert_eq!(seen[3], ("nic3".into(), "su2-rail4".into()));
    assert_eq!(seen.len(), 8);
    assert_eq!(ratios(&f), [Some("1:1".into()), None]);
}

#[test]
fn nonsense_and_giants_are_refused_at_once() {
    let spec = Clos2 { leaves: 4, spines: 2, hosts_per_leaf: 8, host_rate: g(100), uplink_rate: g(100), uplinks: 3 };
    assert!(clos2(&Clos2 { spines: 0, ..spec }).unwrap_err().to_string().contains("spines"));
    assert!(clos2(&Clos2 { host_rate: Rate::ZERO, ..spec }).unwrap_err().to_string().contains("host-rate"));
    let max = u32::MAX;
    let giant = Clos2 { leaves: max, spines: max, hosts_per_leaf: max, uplinks: max, ..spec };
    assert!(matches!(clos2(&giant), Err(FabricError::TooLarge { .. })));
    assert!(matches!(clos2(&Clos2 { uplinks: max, ..spec }), Err(FabricError::TooLarge { what: "links", .. })));
    let apart = Rail { groups: 2, hosts_per_group: 4, rails: 8, spines: 0, host_rate: g(400), uplink_rate: g(400), uplinks: 1 };
    assert!(rail(&apart).unwrap_err().to_string().contains("spines"));
    assert!(rail(&Rail { groups: 1, ..apart }).is_ok());
}
