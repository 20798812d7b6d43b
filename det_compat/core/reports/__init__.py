"""Where reports of a task go: files, and the search that runs it."""
