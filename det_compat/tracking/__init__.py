"""What runs have reported, sent to where it is looked at and compared: MLflow.

A process of its own, which ``det_compat.experiment.processes.tracker`` starts, sends what is in the
folders of runs. It needs neither torch nor Lightning.
"""
