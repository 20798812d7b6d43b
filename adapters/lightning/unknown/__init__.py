"""What is looked at in a Lightning that is not known: nobody has read what it does to a trial."""
