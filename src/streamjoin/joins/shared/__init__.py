"""A join by several threads over shared indexes (Shahvarani and Jacobsen, section 4)."""
