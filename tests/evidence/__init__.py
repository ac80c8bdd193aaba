"""Tests of the shipped evidence."""
