"""SplitJoin against its rivals, on threads and in a simulation."""
