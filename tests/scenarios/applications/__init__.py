"""Real applications for test_applications: their packages, their databases, their writers."""
