"""Special functions: gamma, error and Bessel functions, and the polynomials that
approximate them.
"""
