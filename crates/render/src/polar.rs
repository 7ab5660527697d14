//! Geometry of rings. Angles are turns: 0 at twelve o'clock, clockwise, 1 a full turn.

use core::f64::consts::TAU;

use super::svg::Path;

/// The point at `turn` on a circle.
pub(crate) fn point(centre: (f64, f64), radius: f64, turn: f64) -> (f64, f64) {
    let (sin, cos) = libm::sincos(turn * TAU);
    (centre.0 + radius * sin, centre.1 - radius * cos)
}

/// Appends the part of a ring between two radii and two angles. A full turn is drawn as two
/// halves, because an SVG arc whose ends coincide is empty.
pub(crate) fn sector(path: &mut Path, centre: (f64, f64), radii: (f64, f64), turns: (f64, f64)) {
    let (from, to) = turns;
    if to <= from || radii.1 <= radii.0 {
        return;
    }
    if to - from > 1.0 - 1e-6 {
        let half = from + 0.5;
        sector(path, centre, radii, (from, half));
        sector(path, centre, radii, (half, from + 1.0 - 1e-9));
        return;
    }
    let large = to - from > 0.5;
    path.move_to(point(centre, radii.1, from));
    path.arc_to(radii.1, large, true, point(centre, radii.1, to));
    path.line_to(point(centre, radii.0, to));
    // The inner arc runs back, so the outline encloses the part of the ring and not the disc.
    path.arc_to(radii.0, large, false, point(centre, radii.0, from));
    path.close();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_turn_is_three_o_clock() {
        let (x, y) = point((100.0, 100.0), 50.0, 0.25);
        assert!((x - 150.0).abs() < 1e-9 && (y - 100.0).abs() < 1e-9);
    }

    #[test]
    fn a_full_turn_is_two_closed_halves() {
        let mut path = Path::default();
        sector(&mut path, (0.0, 0.0), (1.0, 2.0), (0.0, 1.0));
        assert_eq!(path.data().matches('Z').count(), 2);
        let mut none = Path::default();
        sector(&mut none, (0.0, 0.0), (1.0, 2.0), (0.3, 0.3));
        assert!(none.data().is_empty());
    }
}
