"""models/recording."""
