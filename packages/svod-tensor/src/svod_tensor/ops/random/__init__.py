"""Random bits from keys, and distributions sampled with them."""
