"""Persistent queries as they run: each as an application, on either engine."""
