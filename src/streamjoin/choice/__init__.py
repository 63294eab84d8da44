"""Which structure or algorithm serves a join best, and why: costs, rules, samples.

Pure: it looks at numbers and returns a choice. It knows plans and keys, not the joins that ask.
"""
