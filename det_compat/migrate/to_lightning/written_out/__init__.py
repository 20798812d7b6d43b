"""What of Determined's torch and Lightning have nothing for: a file that needs it gets it."""
