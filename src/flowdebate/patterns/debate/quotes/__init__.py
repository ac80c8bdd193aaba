"""patterns/debate/quotes."""
