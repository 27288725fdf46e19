"""Element-wise operations, with broadcasting and dtype promotion."""
