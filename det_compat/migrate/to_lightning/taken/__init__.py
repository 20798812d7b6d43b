"""Names of trials that a LightningModule has for something else."""
