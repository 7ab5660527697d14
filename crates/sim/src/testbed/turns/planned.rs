//! Who takes turns with whom, as the service plans it.

use alloc::{string::ToString, sync::Arc, vec::Vec};

use state::{Action, Change, Commit, Event, RequestId, Service, turns::TurnGroup};
use units::FabricTime;

use crate::testbed::{Case, SimError, control_plane::definitions};

/// The groups that the production service makes of a case's jobs when they are committed together: those that gain by turns, by
/// predicted times. The control of `config` is turns, whatever it says.
///
/// # Errors
/// [`SimError::Refused`]: what the service refuses.
pub fn planned_groups(case: &Case<'_>, config: &state::Config) -> Result<Vec<Arc<TurnGroup>>, SimError> {
    let now = FabricTime(0);
    let mut service = Service::new(state::Config { control: plan::Control::Turns, ..config.clone() });
    let fabric = Change::SetFabric {
        by: None,
        if_fabric: None,
        fabric: Arc::new(case.router.fabric().clone()),
        text: Arc::from(""),
        jobs: Vec::new(),
    };
    let commit = Change::Commit(Commit { jobs: definitions(case), ..Commit::default() });
    let mut groups = Vec::new();
    for (request, change) in (0..).zip([fabric, commit]) {
        service.handle(now, Event::Asked { request: RequestId(request), change });
        // Each action is taken off the service, and a batch that is durable begins no other.
        while let Some(action) = service.poll() {
            match action {
                Action::Persist { ticket, .. } => service.handle(now, Event::Persisted { ticket }),
                Action::Turns { groups: planned, .. } => groups = planned,
                Action::Reply { result: Err(refusal), .. } => return Err(SimError::Refused(refusal.to_string())),
                _ => {}
            }
        }
    }
    Ok(groups)
}
