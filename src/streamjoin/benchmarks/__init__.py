"""The suites of ``streamjoin bench``."""
