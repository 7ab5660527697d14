//! Roles of callers, and what each role may do.

pub use crate::tls::{Role, Who};

use crate::api::ApiError;

/// The peer of a connection. Whoever accepts the connection decides: TLS by the client's certificate, and plain TCP,
/// which listens on loopback only, trusts everybody on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The highest role that was proved; `None`: a peer that may only ask for health.
    pub role: Option<Role>,
    /// By whom limits are shared; `None` where callers cannot be told apart.
    pub who: Option<Who>,
}

impl Caller {
    /// Somebody on this machine.
    pub const LOOPBACK: Self = Self { role: Some(Role::Admin), who: None };
    /// Somebody of whom nothing is known.
    pub const NOBODY: Self = Self { role: None, who: None };

    /// Passes a caller with at least this role.
    ///
    /// # Errors
    /// [`ApiError`] of kind forbidden names both roles.
    pub fn require(self, needed: Role) -> Result<(), ApiError> {
        match self.role {
            Some(role) if role.allows(needed) => Ok(()),
            Some(role) => Err(ApiError::forbidden(format!("role {} may not do this; {} may", role.word(), needed.word()))),
            None => Err(ApiError::forbidden(format!("the certificate has no role; {} may do this", needed.word()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_ordered() {
        let read = Caller { role: Some(Role::Read), who: None };
        assert!(read.require(Role::Read).is_ok());
        assert!(read.require(Role::Evaluate).is_err());
        assert!(Caller { role: Some(Role::Agent), who: None }.require(Role::Read).is_err());
        assert!(Caller::LOOPBACK.require(Role::Admin).is_ok());
        assert!(Caller::NOBODY.require(Role::Read).is_err());
    }
}
