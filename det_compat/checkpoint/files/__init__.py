"""Files inside checkpoints, read without running code from them."""
