"""TaskCollection: a task board and audit trail."""
