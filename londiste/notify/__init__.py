"""Notifications: findings of ``status --check`` that begin, last and end, sent to operators."""
