"""``determined.launch``: a script on several processes, by torchrun."""
