//! Linear programs with few rows, by the simplex method on a dense tableau. Nothing is the first answer, so right sides are at least 0.

use alloc::vec::Vec;

/// Slopes and pivots smaller than this count as nothing.
const NOTHING: f64 = 1e-9;
/// Pivots in all, far above what programs of a few hundred rows take.
const PIVOTS_MAX: usize = 100_000;

/// A row: what each variable uses, by its number, and what there is.
pub(super) struct Row {
    pub(super) uses: Vec<(usize, f64)>,
    pub(super) has: f64,
}

/// Variables of at least 0 that bring most, and use no more of each row than it has. The last answer where pivots run out, which fits too.
pub(super) fn maximise(brings: &[f64], rows: &[Row]) -> Vec<f64> {
    let variables = brings.len();
    let width = variables + rows.len() + 1;
    let mut table: Vec<Vec<f64>> = Vec::with_capacity(rows.len());
    for (at, row) in rows.iter().enumerate() {
        let mut line = alloc::vec![0.0; width];
        row.uses.iter().for_each(|(variable, uses)| line[*variable] += uses);
        line[variables + at] = 1.0;
        line[width - 1] = row.has.max(0.0);
        table.push(line);
    }
    let mut gains: Vec<f64> = brings.iter().copied().chain(core::iter::repeat_n(0.0, rows.len() + 1)).collect();
    let mut basis: Vec<usize> = (variables..variables + rows.len()).collect();
    let scale = brings.iter().map(|brings| brings.abs()).fold(0.0, f64::max);
    for pivot in 0..PIVOTS_MAX {
        // The largest gain is quick; the first one (Bland) never goes round in circles.
        let useful = (0..width - 1).filter(|column| gains[*column] > NOTHING * scale);
        let entering = if pivot % 64 < 48 { useful.max_by(|a, b| gains[*a].total_cmp(&gains[*b]).then(b.cmp(a))) } else { useful.min() };
        let Some(column) = entering else { break };
        let ratios =
            table.iter().enumerate().filter(|(_, line)| line[column] > NOTHING).map(|(at, line)| (line[width - 1] / line[column], at));
        let Some((_, at)) = ratios.min_by(|a, b| a.0.total_cmp(&b.0).then(basis[a.1].cmp(&basis[b.1]))) else { break };
        turn(&mut table, &mut gains, at, column);
        basis[at] = column;
    }
    let mut found = alloc::vec![0.0; variables];
    for (variable, line) in basis.iter().zip(&table) {
        if let Some(value) = found.get_mut(*variable) {
            *value = line[width - 1].max(0.0);
        }
    }
    found
}

/// Makes a variable one of those that are not 0, in place of that of a row.
fn turn(table: &mut [Vec<f64>], gains: &mut [f64], at: usize, column: usize) {
    let by = table[at][column];
    table[at].iter_mut().for_each(|entry| *entry /= by);
    let line = table[at].clone();
    let without = |of: &mut [f64]| {
        let times = of[column];
        if times.abs() > 0.0 {
            of.iter_mut().zip(&line).for_each(|(entry, by)| *entry -= times * by);
        }
    };
    table.iter_mut().enumerate().filter(|(other, _)| *other != at).for_each(|(_, other)| without(other));
    without(gains);
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_textbook_program() {
        // 3 a + 5 b, with a <= 4, 2 b <= 12, 3 a + 2 b <= 18: 36 at (2, 6) (Hillier and Lieberman).
        let row = |uses: &[(usize, f64)], has| Row { uses: uses.to_vec(), has };
        let rows = [row(&[(0, 1.0)], 4.0), row(&[(1, 2.0)], 12.0), row(&[(0, 3.0), (1, 2.0)], 18.0)];
        let found = maximise(&[3.0, 5.0], &rows);
        assert!((found[0] - 2.0).abs() < 1e-9 && (found[1] - 6.0).abs() < 1e-9, "{found:?}");
    }

    /// The best of all corners of two variables: where two of the lines meet, the axes being lines too.
    fn corners(brings: [f64; 2], rows: &[Row]) -> f64 {
        let of = |row: &Row| {
            let uses = |variable| row.uses.iter().filter(|(of, _)| *of == variable).map(|(_, uses)| uses).sum::<f64>();
            (uses(0), uses(1), row.has)
        };
        let mut lines: Vec<(f64, f64, f64)> = rows.iter().map(of).collect();
        lines.extend([(1.0, 0.0, 0.0), (0.0, 1.0, 0.0)]);
        let mut best = 0.0_f64;
        for (a, b, c) in &lines {
            for (d, e, f) in &lines {
                let det = a * e - b * d;
                if det.abs() > 1e-9 {
                    let (x, y) = ((c * e - b * f) / det, (a * f - c * d) / det);
                    let fits = rows.iter().map(of).all(|(a, b, c)| a * x + b * y <= c + 1e-7);
                    if x >= -1e-9 && y >= -1e-9 && fits {
                        best = best.max(brings[0] * x + brings[1] * y);
                    }
                }
            }
        }
        best
    }

    proptest! {
        #[test]
        fn it_brings_as_much_as_the_best_corner(
            brings in [0.1_f64..5.0, 0.1_f64..5.0],
            rows in prop::collection::vec((0.1_f64..3.0, 0.1_f64..3.0, 0_u8..9), 1..6),
        ) {
            let rows: Vec<Row> = rows.iter().map(|(a, b, has)| Row { uses: vec![(0, *a), (1, *b)], has: f64::from(*has) }).collect();
            let found = maximise(&brings, &rows);
            let value = brings[0] * found[0] + brings[1] * found[1];
            prop_assert!((value - corners(brings, &rows)).abs() < 1e-6, "{found:?}");
            for row in &rows {
                prop_assert!(row.uses.iter().map(|(at, uses)| found[*at] * uses).sum::<f64>() <= row.has + 1e-7);
            }
        }
    }
}
