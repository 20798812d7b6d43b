"""Names with an underscore in ``determined.pytorch`` that code of users imports.

Here they have none. What they do is what they did in Determined 0.38.1; what trains is elsewhere.
"""
