"""Operations of neural networks: activations, normalization, attention, convolution, pooling,
interpolation of images.
"""
