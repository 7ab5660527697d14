//! The picture of service, agent and gate in `docs/pictures`: who speaks to whom, and by what.
//!
//! `UPDATE_EXPECT=1 cargo test -p antiphase-render the_picture_of_service` draws it anew.

use std::{env, fs, path::PathBuf};

use roxmltree::Document;

use super::{check_svg, save, with_tag};
use crate::{
    svg::{Path, Svg},
    text,
};

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 632.0;
/// Length of an arrow's head.
const HEAD: f64 = 8.0;

/// A box with its name and what it does, a line each.
struct Place {
    name: &'static str,
    lines: &'static [&'static str],
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

const fn place(name: &'static str, lines: &'static [&'static str], [x, y, width, height]: [f64; 4]) -> Place {
    Place { name, lines, x, y, width, height }
}

/// All boxes; a box that holds others comes before them.
const PLACES: [Place; 13] = [
    place("Prometheus", &["metrics, alerts, Grafana"], [16.0, 16.0, 180.0, 58.0]),
    place("Scheduler", &["Kubernetes, Slurm, yours"], [228.0, 16.0, 192.0, 58.0]),
    place("Command line", &["antiphase: jobs, top, doctor"], [440.0, 16.0, 192.0, 58.0]),
    place("Browser", &["the page: jobs, links, turns"], [652.0, 16.0, 192.0, 58.0]),
    place("Topology service", &[], [228.0, 146.0, 616.0, 132.0]),
    place("Topology", &["hosts, switches, cables,", "and their capacities"], [244.0, 180.0, 184.0, 82.0]),
    place("Plan", &["which jobs share a link,", "a time-shift for each job"], [444.0, 180.0, 184.0, 82.0]),
    place("Turns", &["who of the jobs on a link", "may send now"], [644.0, 180.0, 184.0, 82.0]),
    place("Node", &[], [96.0, 378.0, 528.0, 238.0]),
    place("Agent", &["follows the plan,", "asks for turns"], [112.0, 412.0, 158.0, 82.0]),
    place("Training job", &["the gate in its leader rank", "reads the page, holds starts"], [410.0, 412.0, 198.0, 82.0]),
    place("NIC", &["sends when the job goes"], [112.0, 544.0, 496.0, 56.0]),
    place("Switches", &["the links that jobs share"], [680.0, 544.0, 164.0, 56.0]),
];

/// A way of several straight parts, with its colour, heads at its ends, and what is said on it.
struct Way {
    colour: u8,
    heads: [bool; 2],
    points: &'static [(f64, f64)],
    said: &'static [(f64, f64, &'static str)],
}

const WAYS: [Way; 11] = [
    // Requests to the service.
    Way {
        colour: 1,
        heads: [false, true],
        points: &[(324.0, 74.0), (324.0, 146.0)],
        said: &[(334.0, 98.0, "HTTP/2 (gRPC) or"), (334.0, 114.0, "HTTP/JSON, TCP 7480:"), (334.0, 130.0, "evaluate, commit")],
    },
    Way { colour: 1, heads: [false, true], points: &[(536.0, 74.0), (536.0, 146.0)], said: &[(546.0, 114.0, "HTTP/2 (gRPC)")] },
    Way {
        colour: 1,
        heads: [false, true],
        points: &[(748.0, 74.0), (748.0, 146.0)],
        said: &[(758.0, 106.0, "HTTP/JSON"), (758.0, 122.0, "and events")],
    },
    // Metrics.
    Way {
        colour: 4,
        heads: [false, true],
        points: &[(150.0, 74.0), (150.0, 212.0), (228.0, 212.0)],
        said: &[(160.0, 106.0, "HTTP"), (160.0, 122.0, "/metrics")],
    },
    Way {
        colour: 4,
        heads: [false, true],
        points: &[(56.0, 74.0), (56.0, 453.0), (112.0, 453.0)],
        said: &[(66.0, 262.0, "HTTP"), (66.0, 278.0, "/metrics")],
    },
    // The session of an agent.
    Way {
        colour: 2,
        heads: [true, true],
        points: &[(250.0, 278.0), (250.0, 412.0)],
        said: &[
            (262.0, 304.0, "QUIC, UDP 7480: one session for each agent"),
            (262.0, 322.0, "down: plan versions, who may go"),
            (262.0, 338.0, "up: who is ready, starts, ends; counters, clock, cables"),
        ],
    },
    // Between agent and gate.
    Way { colour: 3, heads: [false, true], points: &[(270.0, 438.0), (410.0, 438.0)], said: &[(281.0, 430.0, "schedule page (file)")] },
    Way { colour: 3, heads: [true, false], points: &[(270.0, 470.0), (410.0, 470.0)], said: &[(281.0, 462.0, "report (file), notes")] },
    // What is counted and sent.
    Way { colour: 6, heads: [true, false], points: &[(191.0, 494.0), (191.0, 544.0)], said: &[(201.0, 524.0, "counters, LLDP")] },
    Way { colour: 5, heads: [false, true], points: &[(509.0, 494.0), (509.0, 544.0)], said: &[(519.0, 524.0, "collectives")] },
    Way {
        colour: 6,
        heads: [true, false],
        points: &[(758.0, 278.0), (758.0, 544.0)],
        said: &[(768.0, 404.0, "sFlow"), (768.0, 420.0, "UDP 6343:"), (768.0, 436.0, "counters")],
    },
];

/// A triangle at `to`, for a way that comes from `from` along one axis.
fn head(svg: &mut Svg, colour: u8, from: (f64, f64), to: (f64, f64)) {
    let (dx, dy) = ((to.0 - from.0).signum() * f64::from(to.0 != from.0), (to.1 - from.1).signum() * f64::from(to.1 != from.1));
    let back = (to.0 - dx * HEAD, to.1 - dy * HEAD);
    let mut path = Path::default();
    path.move_to(to);
    path.line_to((back.0 - dy * HEAD / 2.0, back.1 + dx * HEAD / 2.0));
    path.line_to((back.0 + dy * HEAD / 2.0, back.1 - dx * HEAD / 2.0));
    path.close();
    svg.path(&format!("j{colour}"), &path);
}

/// A way, whose line ends within its heads.
fn way(svg: &mut Svg, Way { colour, heads, points, said }: &Way) {
    let last = points.len() - 1;
    let mut path = Path::default();
    for (at, &(x, y)) in points.iter().enumerate() {
        let (end, next) = (if at == 0 { heads[0] } else { at == last && heads[1] }, if at == 0 { points[1] } else { points[at - 1] });
        let shorter = if end { HEAD / 2.0 } else { 0.0 };
        let towards = |from: f64, to: f64| from + shorter * f64::from(to > from) - shorter * f64::from(to < from);
        let to = (towards(x, next.0), towards(y, next.1));
        if at == 0 { path.move_to(to) } else { path.line_to(to) }
    }
    svg.path(&format!("curve j{colour}"), &path);
    if heads[0] {
        head(svg, *colour, points[1], points[0]);
    }
    if heads[1] {
        head(svg, *colour, points[last - 1], points[last]);
    }
    for (x, y, line) in *said {
        svg.text("halo", *x, *y, line);
    }
}

fn draw() -> String {
    let mut svg = Svg::new(
        WIDTH,
        "Service, agents and gates. Scheduler, command line and browser ask the service over HTTP. Each node's agent has a QUIC session with \
         the service. Agent and gate share files. The gate holds the job's starts. Switches send sFlow to the service. Prometheus asks \
         service and agents",
    );
    // More nodes than one.
    for behind in [12.0, 6.0] {
        svg.rect("node", 96.0 + behind, 378.0 - behind, 528.0, 238.0).n("rx", 6.0).end();
    }
    for Place { name, lines, x, y, width, height } in PLACES {
        svg.rect("node", x, y, width, height).n("rx", 6.0).end();
        svg.text("t2", x + 12.0, y + 22.0, name);
        for (line, at) in lines.iter().zip(1..) {
            svg.text("mu", x + 12.0, y + 24.0 + 18.0 * f64::from(at), line);
        }
    }
    svg.text("mu", 372.0, 168.0, "antiphase-topology: one process, one state file");
    svg.text("mu", 264.0, 400.0, "one agent on each GPU host; jobs go on without it");
    // The cable.
    let cable = Way { colour: 5, heads: [true, true], points: &[(608.0, 572.0), (680.0, 572.0)], said: &[(638.0, 563.0, "RoCE")] };
    for each in WAYS.iter().chain([&cable]) {
        way(&mut svg, each);
    }
    svg.set_height(HEIGHT);
    svg.document()
}

/// Whether two spans have more than a rim in common.
fn meet((a, b): (f64, f64), (c, d): (f64, f64)) -> bool {
    a.max(c) < b.min(d)
}

#[test]
fn the_picture_of_service_agent_and_gate_is_what_is_drawn_here() {
    let picture = save("service-agent-gate.svg", draw());
    check_svg(&picture);
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures/service-agent-gate.svg");
    if env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&file, &picture).unwrap();
    }
    assert!(fs::read_to_string(&file).unwrap() == picture, "docs/pictures has another picture; UPDATE_EXPECT=1 writes it, then look at it");
}

#[test]
fn no_text_of_that_picture_leaves_its_box_or_meets_another() {
    for Place { name, lines, width, .. } in PLACES {
        assert!(lines.iter().all(|line| text::width(line, 12.0) <= width - 16.0), "{name} is too narrow");
    }
    let picture = draw();
    let document = Document::parse(&picture).unwrap();
    let number = |node: &roxmltree::Node<'_, '_>, key: &str| node.attribute(key).unwrap().parse::<f64>().unwrap();
    let of = |node: roxmltree::Node<'_, '_>| {
        let (x, y, line) = (number(&node, "x"), number(&node, "y"), node.text().unwrap().to_owned());
        ((x, x + text::width(&line, 12.0)), (y - 10.0, y + 3.0), line)
    };
    let texts: Vec<_> = with_tag(&document, "text").map(of).collect();
    assert!(texts.len() > 40, "the texts were not found");
    for (at, (across, down, line)) in texts.iter().enumerate() {
        assert!(across.1 < WIDTH && down.1 < HEIGHT, "{line}");
        let other = texts[at + 1..].iter().find(|other| meet(*across, other.0) && meet(*down, other.1));
        assert!(other.is_none(), "{line} and {other:?}");
    }
}
