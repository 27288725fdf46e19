"""Tree ensembles: reading, packing and traversal."""
