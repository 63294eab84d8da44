"""Two windows in, matches out."""
