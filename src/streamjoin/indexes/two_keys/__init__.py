"""One structure for two inequalities or bands at once: SPO-Join."""
