"""What functions of matrices are made of: calls of LAPACK as nodes of the graph, and their derivatives."""
