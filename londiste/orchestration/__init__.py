"""Orchestration of commands: plans, resumable steps, and connections to several nodes."""
