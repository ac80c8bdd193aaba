"""Material for arguments to quote: read from files and folders, searched, and used to verify quotes word for word."""
