"""The study of intra-window joins: its workloads, algorithms, figures and findings."""
