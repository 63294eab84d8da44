"""How work runs: compiled kernels, atomics, threads, channels, interrupts, forks.

Every package may import it; it imports only errors.
"""
