"""Eager algorithms: they join tuples as they arrive (SHJ and PMJ, spread by JM or JB)."""
