"""Console: pages about a cascade in a browser, live, from what ``monitor`` collects."""
