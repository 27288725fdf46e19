"""Random bits from keys, and distributions of them."""
