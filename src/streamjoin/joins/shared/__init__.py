"""A join by several threads over shared indexes.

Sections cited in these modules are of Shahvarani and Jacobsen, "Parallel Index-based Stream Join on
a Multicore CPU" (arXiv:1903.00452), whose section 4 this package implements.
"""
