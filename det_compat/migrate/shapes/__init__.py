"""What is known of the shape of metrics without running anything."""
