"""Functions of Python and of libraries that run on the host between kernels, as nodes of
the graph.
"""
