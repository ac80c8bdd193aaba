"""resources/tasks."""
