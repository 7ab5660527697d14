//! Applications without files: fitted parameters and noise.

use super::{
    application::{Application, Applications, Learning, traits},
    fitted::KNOWN,
    known::{Fit, Known},
};

/// The types of GPU that are built in, under the names of Sia's artifact: T4, V100, A100, Quadro RTX 6000 and RTX 2080 Ti.
pub const TYPES: [&str; 5] = ["aws", "azure", "dgx-ext", "quad", "rtx"];

/// All applications on types of GPU; `None` where one of these is not built in.
#[must_use]
pub fn builtin(types: &[&str]) -> Option<Applications> {
    let one = |known: &Known| {
        let traits = *traits().iter().find(|traits| traits.name == known.name)?;
        let fit = |name: &&str| known.fits.iter().find(|fit| fit.gpu_type == *name).map(Fit::speeds);
        let gradients = known.noise.iter().map(|(batch, parts)| (*batch, parts.iter().map(|noise| (1.0, *noise)).collect())).collect();
        let learning = Learning { ends: known.ends.to_vec(), gradients };
        Some(Application { traits, learning, speeds: types.iter().map(fit).collect::<Option<_>>()? })
    };
    KNOWN.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_application_is_built_in_on_every_type() {
        let all = builtin(&TYPES).unwrap();
        assert_eq!(all.len(), traits().len());
        for app in &all {
            let batches: Vec<u32> = app.learning.gradients.iter().map(|(batch, _)| *batch).collect();
            assert_eq!(batches, app.traits.batches, "{}", app.traits.name);
            assert!(app.learning.ends.is_sorted() && app.learning.ends.iter().all(|end| *end > 0.0));
            assert!(app.learning.gradients.iter().all(|(_, parts)| parts.len() == app.learning.ends.len()));
            assert!(app.learning.gradients.iter().flat_map(|(_, parts)| parts).all(|part| part.1 > 0.0), "{}", app.traits.name);
        }
        assert_eq!(builtin(&["h100"]), None);
    }
}
