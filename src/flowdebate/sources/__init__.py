"""Material that arguments may quote: read from files and folders, searched, and used to verify quotes word for word."""
