"""Eager algorithms: they join tuples as they come (SHJ and PMJ, spread by JM or JB)."""
