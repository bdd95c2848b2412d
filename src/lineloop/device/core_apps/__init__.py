"""Manifests of the apps that are part of the Runtime: chat, app-registry, settings. Data only."""
