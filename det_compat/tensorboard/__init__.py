"""TensorBoard files, under the module names of ``determined.tensorboard``."""
