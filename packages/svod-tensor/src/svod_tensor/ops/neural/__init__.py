"""Neural network operations: activations, normalization, attention, convolution, pooling, and
interpolation.
"""
