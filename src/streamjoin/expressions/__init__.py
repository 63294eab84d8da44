"""SQL expressions over Arrow columns, with Spark's answers.

``parsing.py`` reads and resolves an expression, ``evaluation.py`` evaluates it, and ``coercion.py``
knows in which types values compare. The other modules are the functions, by kind.
"""
