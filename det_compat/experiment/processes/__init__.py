"""The processes of a run: who starts them, who tells them to end, and who ends with whom."""
