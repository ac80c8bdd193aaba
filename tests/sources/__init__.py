"""Sources: files, documents, passages."""
