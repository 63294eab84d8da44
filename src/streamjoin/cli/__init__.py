"""The command ``streamjoin``: its options, files that are joined, the demo.

Nothing imports it; it may import everything.
"""
