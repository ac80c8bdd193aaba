"""The phases of a consensus debate."""
