"""Structures of subwindows that are partitioned by key: RaP-Table and WiB+-Tree (PanJoin)."""
