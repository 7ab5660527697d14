//! What a job was made from, opaque to this crate.

use alloc::sync::Arc;
use core::{any::Any, fmt};

/// What a job was made from: a value of the caller's, which is kept, compared with others, and handed back.
#[derive(Clone)]
pub struct Document(Arc<dyn Opaque>);

trait Opaque: Any + fmt::Debug + Send + Sync {
    fn same(&self, other: &dyn Opaque) -> bool;
}

impl<T: Any + fmt::Debug + PartialEq + Send + Sync> Opaque for T {
    fn same(&self, other: &dyn Opaque) -> bool {
        (other as &dyn Any).downcast_ref::<T>().is_some_and(|other| self == other)
    }
}

impl Document {
    /// Keeps a value. A value that does not equal itself is a new document each time.
    #[must_use]
    pub fn new<T: Any + fmt::Debug + PartialEq + Send + Sync>(value: Arc<T>) -> Self {
        Self(value)
    }

    /// The value, if it is of this type.
    #[must_use]
    pub fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        let value: Arc<dyn Any + Send + Sync> = self.0.clone();
        value.downcast().ok()
    }
}

impl PartialEq for Document {
    fn eq(&self, other: &Self) -> bool {
        self.0.same(&*other.0)
    }
}

impl Eq for Document {}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_the_same_by_type_and_value() {
        let of = |text: &str| Document::new(Arc::new(String::from(text)));
        assert_eq!(of("a"), of("a"));
        assert_ne!(of("a"), of("b"));
        assert_ne!(of("a"), Document::new(Arc::new("a")));
        assert_eq!(of("a").get::<String>().as_deref().map(String::as_str), Some("a"));
        assert_eq!(of("a").get::<u32>(), None);
    }
}
