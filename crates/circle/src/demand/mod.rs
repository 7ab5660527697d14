//! The demand of jobs on a link: folded onto the reduced circle, sums of it, and what one more job adds.

pub(crate) mod allowance;
pub(crate) mod background;
pub(crate) mod circle;
pub(crate) mod distribution;
pub(crate) mod folded;
mod joint;
pub(crate) mod layered;
mod levels;
pub(crate) mod marginal;
pub(crate) mod minimum;
pub(crate) mod moments;
pub(crate) mod perimeter;
pub(crate) mod steps;
pub(crate) mod sum;
pub(crate) mod swept;
