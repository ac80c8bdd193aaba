"""Many questions at once: they are read, asked, and what comes of them is written down."""
