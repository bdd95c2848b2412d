"""Carries out what has been committed. Every reconciler can rebuild its work from facts."""
