"""Host functions: Python and library functions called between kernels, as nodes of the graph."""
