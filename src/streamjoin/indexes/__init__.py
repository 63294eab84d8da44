"""The tuples of one subwindow: one structure a file, all behind one protocol."""
