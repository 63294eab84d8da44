"""SplitJoin: a join spread over cores that need no coordinator, and its results in order."""
