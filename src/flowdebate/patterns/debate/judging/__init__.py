"""patterns/debate/judging."""
