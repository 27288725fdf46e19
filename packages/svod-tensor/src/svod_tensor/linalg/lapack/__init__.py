"""LAPACK calls as nodes of the graph, with their derivatives."""
