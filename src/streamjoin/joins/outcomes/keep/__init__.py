"""The best pairs of each left row: of a closed set, and in count windows as rows come."""
