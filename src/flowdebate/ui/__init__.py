"""Foundation of all front ends: options, plans, pattern pages, and documents of runs."""
