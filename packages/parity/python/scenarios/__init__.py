"""Scenarios: what a user does, done with the official SDK. Their twins are in `src/scenarios`."""
