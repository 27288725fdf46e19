"""Matrix products and Einstein sums."""
