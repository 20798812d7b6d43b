"""What is made in some files, and what is given to what."""
