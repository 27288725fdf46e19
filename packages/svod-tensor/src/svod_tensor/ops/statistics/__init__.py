"""Moments, quantiles, covariance, histograms, and numerical integrals."""
