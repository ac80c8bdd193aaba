"""Tests of `consensus()`."""
