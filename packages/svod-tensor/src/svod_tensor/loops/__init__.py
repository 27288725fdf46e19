"""Programs that repeat: loops over tensors, and what is built on them."""
