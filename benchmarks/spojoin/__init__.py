"""SPO-Join: two inequalities at once, and the baselines of its paper."""
