"""Trees that hold a whole window and forget its oldest tuples one by one (PIM-Tree)."""
