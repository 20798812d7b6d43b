"""A second look at files that were rewritten: what cannot be shown to be right gets a comment.

Nothing is run. Each check reads the syntax trees of all files before and after, and reports what
was in order before.
"""
