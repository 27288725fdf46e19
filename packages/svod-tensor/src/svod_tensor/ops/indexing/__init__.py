"""Indexing, gather and scatter, selection by values, sorting, and sets."""
