"""How rows reach the join cores: the exchange of parcels, the routing table, and hints of it."""
