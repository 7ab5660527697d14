//! One signal that everything waits for.

use tokio::sync::watch;

/// Tells that the service is going down. Cloning it shares it.
#[derive(Clone, Debug)]
pub struct Shutdown {
    sender: std::sync::Arc<watch::Sender<bool>>,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self { sender: std::sync::Arc::new(watch::Sender::new(false)) }
    }
}

impl Shutdown {
    /// Begins the shutdown, which cannot be taken back.
    pub fn begin(&self) {
        self.sender.send_replace(true);
    }

    /// Whether the shutdown has begun.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        *self.sender.borrow()
    }

    /// Returns once the shutdown has begun.
    pub async fn wait(&self) {
        // `self` holds the sender, so the channel cannot be closed while this waits.
        let _ = self.sender.subscribe().wait_for(|begun| *begun).await;
    }
}
