"""SplitJoin: a join spread over cores that need no coordinator, with ordered results.

Sections cited in these modules are of Najafi, Sadoghi and Jacobsen, "SplitJoin: A Scalable,
Low-latency Stream Join Architecture with Adjustable Ordering Precision" (USENIX ATC 2016).
"""
