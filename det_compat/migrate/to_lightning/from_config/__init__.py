"""What of an experiment config the constructor of a module takes."""
