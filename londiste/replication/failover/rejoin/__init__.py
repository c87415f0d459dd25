"""Rejoin of a failed root as a branch: its diverged events, and the steps back."""
