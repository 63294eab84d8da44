"""The command ``streamjoin``: its options, reading and writing files, the demo.

Nothing imports it; it may import everything.
"""
