"""PanJoin's structures and its figures."""
