"""Optimizers and LR schedulers of trials, as Lightning has them made and stepped."""
