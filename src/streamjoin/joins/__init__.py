"""Two windows in, matches out: the engine, and an executor for each kind of window.

`build` makes an engine from a configuration and two schemas. The engine hands the steps of a push
to an executor: `sliding`, `tumbling`, `sessions`, or `split` and `shared` for threads. `api` and
`spark` import this package; it imports options, plans, indexes, choice and what lies below them.
"""
