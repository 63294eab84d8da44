"""Values as int64 keys: ordered, hashed, combined; and the ranges of them that a part allows."""
