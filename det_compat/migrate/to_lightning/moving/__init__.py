"""The moving of statements out of ``__init__``: what moves along, and what forbids it."""
