"""Sliding windows, by time or count: chains of subwindows, and the steps over them (PanJoin)."""
