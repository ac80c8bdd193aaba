"""Material for arguments to quote: reading files and folders, searching them, and verifying quotes word for word."""
