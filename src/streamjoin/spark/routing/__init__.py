"""How rows reach the join cores: the routing table, packing, parcels, hints, receiving."""
