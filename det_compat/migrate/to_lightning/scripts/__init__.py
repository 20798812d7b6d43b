"""Scripts that train a trial by Determined's Trainer."""
