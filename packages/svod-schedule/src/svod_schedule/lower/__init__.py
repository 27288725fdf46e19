"""Step 7, lower: an optimised kernel becomes what renderers accept."""
