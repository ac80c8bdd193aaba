"""Argument graphs and AIF."""
