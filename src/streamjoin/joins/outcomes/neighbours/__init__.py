"""As-of joins: what left rows keep, found by the order of one key instead of from their pairs."""
