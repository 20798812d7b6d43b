"""Syntax trees of files that are migrated: what stands in them, and what is put there."""
