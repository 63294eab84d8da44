"""How work runs: compiled kernels, atomics, threads, interrupts, forks. Imports only errors."""
