"""Where the handlers of apps run: the port, the logic container and its pool."""
