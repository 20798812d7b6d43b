"""The context that a trial gets in its ``__init__``, and what it is made of."""
