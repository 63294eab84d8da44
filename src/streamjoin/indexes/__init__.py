"""The tuples of one subwindow: one structure per file, all behind one protocol.

A structure maps int64 keys to row ids and knows nothing about windows or conditions. `catalogue`
lists them all. `joins`, `choice` and `calibration` import it; it imports keys and kernels.
"""
