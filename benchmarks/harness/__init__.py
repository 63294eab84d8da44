"""How we measure and report: series in turns, claims, figures, workloads, the machine."""
