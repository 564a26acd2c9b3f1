"""Tests of what a process takes from its machine."""
