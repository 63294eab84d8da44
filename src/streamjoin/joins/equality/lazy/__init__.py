"""Lazy algorithms: they join a window once it is complete (NPJ, PRJ, MWay, MPass)."""
