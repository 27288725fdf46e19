"""lower: an optimised kernel becomes what renderers accept."""
