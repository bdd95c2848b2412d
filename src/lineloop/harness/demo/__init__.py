"""The scripted stand-in for a model: it matches words, fills schemas and says so. Not an AI, and never
claims to be.
"""
