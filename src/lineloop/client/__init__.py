"""The client: verbs and handles for operators, devices and tools, over a link, HTTP or in process."""
