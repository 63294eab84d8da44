"""The state of a core: segments and a manifest, the store, shared files, a join's facts."""
