"""How work runs: compiled kernels, atomics, threads, channels, interrupts, forks.

Everything may import it; it imports only errors.
"""
