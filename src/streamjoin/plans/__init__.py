"""From a condition, a window and two schemas to a plan, and from batches to prepared rows.

A plan is all that a join knows before it sees a value. `joins`, `choice` and what lies above them
import it; it imports keys, conditions and windows.
"""
