//! Writes the golden cases of `tests/golden/{single,tree,loop}`: seeded instances with scores found
//! by exhaustive search over the LCM circle, which shares no code with the solver.
//!
//! `cargo run --release -p antiphase-circle --example golden -- tests/golden`

#[path = "../tests/oracle/mod.rs"]
mod oracle;

use std::{fs, path::Path};

use oracle::{Instance, Random};

const CAPACITY: u64 = 50_000;

/// One job as the papers' profiles look: Up phases late in the iteration, some multi-level.
fn phases(random: &mut Random, period: u64, up_max: u64, bursts: u64) -> oracle::Phases {
    let mut at = period - random.range(period / 8, (period * up_max / 100).max(period / 8));
    let mut out = Vec::new();
    let burst = ((period - at) / bursts).max(1);
    for b in 0..bursts {
        let gap = if b > 0 { (burst / 3).min(1) } else { 0 };
        let (from, to) = (at + gap, (at + burst).min(period));
        if from < to {
            out.push((from, to, *random.pick(&[50_000, 45_000, 40_000, 25_000, 20_000])));
        }
        at += burst;
    }
    out
}

fn instance(seed: u64, periods: &[u64], links: &[&[usize]], up_max: u64) -> Instance {
    let mut random = Random(seed);
    let own: Vec<oracle::Phases> = periods
        .iter()
        .map(|&t| {
            let bursts = *random.pick(&[1, 1, 2, 3]);
            phases(&mut random, t, up_max, bursts)
        })
        .collect();
    let links = links.iter().map(|jobs| (CAPACITY, jobs.iter().map(|&j| (j, own[j].clone())).collect())).collect();
    Instance { periods: periods.to_vec(), links }
}

fn write(folder: &Path, suite: &str, name: &str, instance: &Instance) {
    let expect = match suite {
        "single" => format!(
            r#"{{"zero_shift_score":{:.12},"grid5_score":{:.12},"optimum":{:.12}}}"#,
            instance.mean(&vec![0; instance.periods.len()]),
            instance.grid5(),
            instance.optimum()
        ),
        _ => {
            let zeros = vec![0; instance.periods.len()];
            let zero: Vec<String> = (0..instance.links.len())
                .filter(|&l| instance.links[l].1.len() > 1)
                .map(|l| format!("{:.12}", instance.link_score(l, &zeros)))
                .collect();
            // On a tree the optimum of every link alone can be had at once (Theorem 1).
            let key = if suite == "tree" { "exact_bfs_mean" } else { "joint_optimum_mean" };
            format!(r#"{{"zero_shift_link_scores":[{}],"{key}":{:.12}}}"#, zero.join(","), instance.optimum())
        }
    };
    assert_eq!(instance.has_loop(), suite == "loop", "{name}");
    let scenario = instance.scenario();
    let text = format!("{},\"expect\":{expect}}}\n", &scenario[..scenario.len() - 1]);
    fs::create_dir_all(folder.join(suite)).expect("folder");
    fs::write(folder.join(suite).join(format!("{name}.json")), text).expect("write");
    println!("{suite}/{name} {expect}");
}

fn main() {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "tests/golden".into());
    let folder = Path::new(&folder);
    let all = |n: usize| (0..n).collect::<Vec<_>>();
    // Two VGG16 of the paper's figure 3 and the 40/60 ms pair of figure 5 (its widths are ours).
    let vgg16 = vec![(141, 255, 45_000)];
    let figure3 = Instance { periods: vec![255, 255], links: vec![(CAPACITY, vec![(0, vgg16.clone()), (1, vgg16)])] };
    write(folder, "single", "paper-figure3-two-vgg16", &figure3);
    let figure5 =
        Instance { periods: vec![40, 60], links: vec![(CAPACITY, vec![(0, vec![(30, 40, 50_000)]), (1, vec![(50, 60, 50_000)])])] };
    write(folder, "single", "paper-figure5-40-60", &figure5);
    let singles: [&[u64]; 16] = [
        &[200, 300],
        &[255, 170],
        &[251, 163],
        &[199, 200],
        &[1000, 350],
        &[240, 240],
        &[120, 120, 120],
        &[120, 180, 240],
        &[96, 144, 192],
        &[60, 84, 90],
        &[40, 40, 40, 40],
        &[24, 36, 48, 72],
        &[20, 30, 40, 60],
        &[24, 24, 24, 24, 24],
        &[12, 18, 24, 36, 36],
        &[16, 24, 16, 24, 48],
    ];
    for (i, periods) in singles.iter().enumerate() {
        let up_max = [0, 0, 60, 45, 38, 33][periods.len()];
        let case = instance(7_000 + i as u64, periods, &[&all(periods.len())], up_max);
        let name: Vec<String> = periods.iter().map(u64::to_string).collect();
        write(folder, "single", &format!("n{}-{}", periods.len(), name.join("-")), &case);
    }
    let trees: [(&[u64], &[&[usize]]); 5] = [
        (&[40, 60, 40], &[&[0, 1], &[1, 2]]),
        (&[48, 72, 24, 48], &[&[0, 1, 2], &[2, 3]]),
        (&[40, 80, 40, 80], &[&[0, 1], &[0, 2], &[0, 3]]),
        (&[36, 54, 36, 54, 36], &[&[0, 1, 2], &[2, 3], &[3, 4]]),
        (&[30, 45, 30, 60], &[&[0, 1], &[2, 3]]),
    ];
    for (i, (periods, links)) in trees.iter().enumerate() {
        write(folder, "tree", &format!("tree{i}"), &instance(8_000 + i as u64, periods, links, 45));
    }
    let loops: [(&[u64], &[&[usize]]); 6] = [
        (&[40, 40], &[&[0, 1], &[0, 1]]),
        (&[24, 36, 24], &[&[0, 1], &[1, 2], &[0, 2]]),
        (&[24, 24, 24], &[&[0, 1, 2], &[0, 1, 2]]),
        (&[20, 30, 20, 30], &[&[0, 1], &[1, 2], &[2, 3], &[0, 3]]),
        (&[24, 48, 24, 48], &[&[0, 1, 2], &[2, 3], &[0, 3]]),
        (&[30, 30, 30], &[&[0, 1], &[0, 1, 2], &[1, 2]]),
    ];
    for (i, (periods, links)) in loops.iter().enumerate() {
        write(folder, "loop", &format!("loop{i}"), &instance(9_000 + i as u64, periods, links, 45));
    }
}
