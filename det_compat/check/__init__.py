"""``det-compat check``: what a tree of code asks of Determined, and what becomes of it.

It reads code and imports none of it: ``checker.check(paths)`` gives a ``findings.Report``.
``names`` and ``members`` are the table of what is supported.
"""
