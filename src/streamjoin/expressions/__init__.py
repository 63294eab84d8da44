"""SQL expressions over Arrow columns, with Spark's answers.

``parsing.py`` reads and resolves an expression, ``evaluation.py`` evaluates it, ``coercion.py``
knows the types in which values compare. The other modules are the functions, by kind.
"""
