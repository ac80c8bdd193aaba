"""Tests for the published evidence."""
