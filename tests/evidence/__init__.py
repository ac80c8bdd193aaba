"""Tests of the published evidence."""
