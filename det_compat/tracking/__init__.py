"""What runs have reported, sent to where it is looked at and compared: MLflow.

A process of its own sends what is in the folders of runs; ``det_compat.experiment.processes.tracker``
starts it. It needs neither torch nor Lightning.
"""
