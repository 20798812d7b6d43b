"""What a trial does before there is a Trainer, when it is made."""
