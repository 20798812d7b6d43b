"""Whether a migrated module trains to the same bits as the trial that it was."""
