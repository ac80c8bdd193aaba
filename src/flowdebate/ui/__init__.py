"""Shared foundation of all front ends: options, plans, pattern pages, and run documents."""
