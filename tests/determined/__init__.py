"""Determined's own tests, under the real ``determined`` and under det_compat's.

``python -m tests.determined`` (``make determined``) takes the path of a checkout of Determined's
repository at 0.38.1 from ``DETERMINED_SOURCE``. None of its files is a part of this project.
"""
