//! The two models.

mod encoder;
mod policy;
mod scene;
mod speeds;

pub(crate) use policy::masked;
pub use policy::{Chosen, Decision, Learned, Policy};
pub use scene::Scene;
pub use speeds::SpeedModel;
pub(crate) use speeds::Standing;
