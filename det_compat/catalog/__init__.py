"""Every name and member of Determined, and what becomes of it under det_compat."""
