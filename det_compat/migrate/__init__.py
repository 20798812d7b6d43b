"""``det-compat migrate``: code of Determined's, rewritten for det_compat or Lightning.

It reads code as ``det_compat.check`` does, and rewrites it with LibCST, so that comments and
formatting stay. ``migration.migrate(paths, to)`` gives a ``results.Migration``; nothing is written.
"""
