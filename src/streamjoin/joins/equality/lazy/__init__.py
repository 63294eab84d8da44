"""Lazy algorithms: they join a window whose tuples are all there (NPJ, PRJ, MWay, MPass)."""
