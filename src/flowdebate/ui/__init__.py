"""Foundation of all front ends: options, plans, pages of patterns, and documents of runs."""
