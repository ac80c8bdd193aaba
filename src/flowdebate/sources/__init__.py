"""Material that arguments may quote: read from files and folders, searched, and looked up word for word."""
