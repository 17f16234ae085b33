"""Readers and writers of published problem files, registered with Berthage by name."""
