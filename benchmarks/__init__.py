"""Benchmarks: each measures Lineloop and its yardstick in turn, in one run, and reports medians."""
