"""evaluation/recount."""
