"""The controller runtime: resources, watches, work queues, controllers, leases (spec/protocol.md §9).

It decides how desired state is stored, seen and acted upon; what any kind of resource means is decided by the
controllers written with it.
"""
