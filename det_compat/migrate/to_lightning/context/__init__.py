"""What Determined's context, and its other names, become."""
