//! Made-up runs for the store's tests.
