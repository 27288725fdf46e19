"""Tuning: compiles, times and verifies the candidates of a search, and stores the results on disk."""
