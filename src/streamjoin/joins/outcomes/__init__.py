"""What a join gives: pairs, rows that match something, rows that match nothing."""
