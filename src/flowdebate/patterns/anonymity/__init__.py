"""Anonymity: aliases for the names of debaters and models in arguments."""
