"""Simulated debaters and judges."""
