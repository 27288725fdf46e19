"""Statistics: moments, quantiles, covariance, histograms, and numerical integration."""
