//! The two models.

mod encoder;
mod policy;
mod remembered;
mod scene;
mod speeds;

pub(crate) use policy::masked;
pub use policy::{Chosen, Decision, Learned, Policy};
pub use remembered::Remembered;
pub use scene::Scene;
pub(crate) use scene::{PLACE, Sat, TOKEN};
pub use speeds::SpeedModel;
pub(crate) use speeds::Standing;
