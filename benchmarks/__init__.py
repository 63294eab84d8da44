"""Measurements of streamjoin: a folder per paper, and ``harness`` for how we measure and report.

``python -m benchmarks SUITE`` runs one. Nothing here is part of the package that users install.
"""
