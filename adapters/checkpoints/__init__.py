"""What a run writes into its checkpoints, which it keeps, and how it goes on from one."""
