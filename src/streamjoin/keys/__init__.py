"""Values as int64 keys: order-preserving, hashed, combined, and the ranges of them that a part asks for."""
